package sandboxv1

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The relays in production are other people's programs: whatever differs from
// these tables, in either direction, breaks the wire.

// wantMessages has each field as "number name type", with "in <oneof>" for the
// member of one and "repeated" before the type of a list.
var wantMessages = map[string][]string{
	"WorkerFrame": {
		"1 hello sandbox.v1.Hello in msg",
		"2 heartbeat sandbox.v1.Heartbeat in msg",
		"3 chunk sandbox.v1.Chunk in msg",
		"4 end sandbox.v1.End in msg",
		"5 error sandbox.v1.ExecError in msg",
	},
	"ServerFrame": {
		"1 exec sandbox.v1.Exec in msg",
		"2 abort sandbox.v1.Abort in msg",
	},
	"Hello": {
		"1 sandbox_id string",
		"2 labels map<string,string>",
		"3 capabilities repeated string",
		"4 image string",
		"5 arch string",
		"6 capacity_max uint32",
		"7 trust string",
	},
	"Heartbeat": {},
	"Exec": {
		"1 req_id uint64",
		"2 command string",
		"3 stdin bytes",
		"4 timeout_s uint32",
		"5 streaming bool",
		"6 workspace_key string",
	},
	"Abort": {"1 req_id uint64"},
	"Chunk": {
		"1 req_id uint64",
		"2 data bytes",
		"3 stream sandbox.v1.Stream",
	},
	"End": {
		"1 req_id uint64",
		"2 exit_code sint32",
		"3 truncated bool",
	},
	"ExecError": {
		"1 req_id uint64",
		"2 message string",
	},
	"ExecRequest": {
		"1 sandbox_id string",
		"2 exec sandbox.v1.Exec",
	},
	"ExecEvent": {
		"1 chunk sandbox.v1.Chunk in event",
		"2 end sandbox.v1.End in event",
		"3 error sandbox.v1.ExecError in event",
	},
	"AbortRequest": {
		"1 sandbox_id string",
		"2 req_id uint64",
	},
	"AbortResponse": {},
}

var wantEnums = map[string][]string{
	"Stream": {"0 STREAM_UNSPECIFIED", "1 STREAM_STDOUT", "2 STREAM_STDERR"},
}

var wantServices = map[string][]string{
	"SandboxWorker": {"Attach(stream sandbox.v1.WorkerFrame) returns (stream sandbox.v1.ServerFrame)"},
	"SandboxExec": {
		"Exec(sandbox.v1.ExecRequest) returns (stream sandbox.v1.ExecEvent)",
		"Abort(sandbox.v1.AbortRequest) returns (sandbox.v1.AbortResponse)",
	},
}

func TestFileIsTheOneOnTheWire(t *testing.T) {
	f := File_sandbox_v1_sandbox_proto
	if f.Package() != "sandbox.v1" {
		t.Errorf("package is %s, want sandbox.v1", f.Package())
	}
	if f.Syntax() != protoreflect.Proto3 {
		t.Errorf("syntax is %s, want proto3", f.Syntax())
	}
	if n := f.Extensions().Len(); n != 0 {
		t.Errorf("%d extensions, want none", n)
	}
}

func TestMessagesAreAsSpecified(t *testing.T) {
	got := map[string][]string{}
	ms := File_sandbox_v1_sandbox_proto.Messages()
	for i := range ms.Len() {
		m := ms.Get(i)
		fields := []string{}
		for j := range m.Fields().Len() {
			fields = append(fields, fieldLine(m.Fields().Get(j)))
		}
		got[string(m.Name())] = fields
		for j := range m.Messages().Len() {
			if nested := m.Messages().Get(j); !nested.IsMapEntry() {
				t.Errorf("%s: a nested message that is not specified", nested.FullName())
			}
		}
		if m.Enums().Len() != 0 || m.Extensions().Len() != 0 {
			t.Errorf("%s: a nested enum or extension that is not specified", m.FullName())
		}
	}
	compare(t, "message", got, wantMessages)
}

func TestEnumsAreAsSpecified(t *testing.T) {
	got := map[string][]string{}
	es := File_sandbox_v1_sandbox_proto.Enums()
	for i := range es.Len() {
		vs := es.Get(i).Values()
		var lines []string
		for j := range vs.Len() {
			lines = append(lines, fmt.Sprintf("%d %s", vs.Get(j).Number(), vs.Get(j).Name()))
		}
		got[string(es.Get(i).Name())] = lines
	}
	compare(t, "enum", got, wantEnums)
}

func TestServicesAreAsSpecified(t *testing.T) {
	stream := func(yes bool) string {
		if yes {
			return "stream "
		}
		return ""
	}
	got := map[string][]string{}
	ss := File_sandbox_v1_sandbox_proto.Services()
	for i := range ss.Len() {
		var lines []string
		for j := range ss.Get(i).Methods().Len() {
			m := ss.Get(i).Methods().Get(j)
			lines = append(lines, fmt.Sprintf("%s(%s%s) returns (%s%s)", m.Name(),
				stream(m.IsStreamingClient()), m.Input().FullName(),
				stream(m.IsStreamingServer()), m.Output().FullName()))
		}
		got[string(ss.Get(i).Name())] = lines
	}
	compare(t, "service", got, wantServices)
}

// TestNegativeExitCodeIsZigZag has the bytes themselves: int32 in place of
// sint32 would pass every Go-to-Go test and break the production relay.
func TestNegativeExitCodeIsZigZag(t *testing.T) {
	got, err := proto.Marshal(&WorkerFrame{Msg: &WorkerFrame_End{End: &End{ReqId: 4, ExitCode: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []byte{4<<3 | 2, 4, 1 << 3, 4, 2 << 3, 1}
	if !slices.Equal(got, want) {
		t.Errorf("got % x, want % x", got, want)
	}
}

func fieldLine(f protoreflect.FieldDescriptor) string {
	line := fmt.Sprintf("%d %s ", f.Number(), f.Name())
	switch {
	case f.IsMap():
		line += fmt.Sprintf("map<%s,%s>", typeName(f.MapKey()), typeName(f.MapValue()))
	case f.Cardinality() == protoreflect.Repeated:
		line += "repeated " + typeName(f)
	case f.HasOptionalKeyword():
		line += "optional " + typeName(f)
	default:
		line += typeName(f)
	}
	if o := f.ContainingOneof(); o != nil {
		line += " in " + string(o.Name())
	}
	return line
}

func typeName(f protoreflect.FieldDescriptor) string {
	switch {
	case f.Message() != nil:
		return string(f.Message().FullName())
	case f.Enum() != nil:
		return string(f.Enum().FullName())
	}
	return f.Kind().String()
}

func compare(t *testing.T, what string, got, want map[string][]string) {
	t.Helper()
	for name, lines := range want {
		if _, there := got[name]; !there {
			t.Errorf("%s %s: gone", what, name)
		} else if !slices.Equal(got[name], lines) {
			t.Errorf("%s %s:\n got %q\nwant %q", what, name, got[name], lines)
		}
	}
	for name := range got {
		if _, there := want[name]; !there {
			t.Errorf("%s %s: not specified", what, name)
		}
	}
}
