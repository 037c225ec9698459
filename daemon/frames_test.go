package daemon

import (
	"strings"
	"testing"
	"testing/quick"
	"unicode/utf8"

	"execworker/daemon/observe"
	"execworker/daemon/runner"
	sandboxv1 "execworker/proto/sandbox/v1"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

func TestOutcomesOnTheWire(t *testing.T) {
	end := func(code int32) *sandboxv1.WorkerFrame { return endFrame(9, int(code), false) }
	tests := []struct {
		outcome outcome
		want    *sandboxv1.WorkerFrame
	}{
		{outcome{kind: observe.OutcomeExit, code: 255}, end(255)},
		{outcome{kind: observe.OutcomeExit, truncated: true}, endFrame(9, 0, true)},
		{outcome{kind: observe.OutcomeSignal}, end(-1)},
		{outcome{kind: observe.OutcomeAbort}, end(-1)},
		{timedOut(4294967295), errorFrame(9, "timeout:4294967295")},
		{busy("queue full"), errorFrame(9, "busy: queue full")},
		{outcome{kind: observe.OutcomeDrained, message: errDrained{}.Error()}, errorFrame(9, "drained: worker is shutting down")},
		{outcome{kind: observe.OutcomeLost}, nil},
	}
	for _, test := range tests {
		if got := test.outcome.frame(9); !proto.Equal(got, test.want) {
			t.Errorf("%+v is %v, want %v", test.outcome, got, test.want)
		}
	}
}

func TestErrorsAreValidAndShort(t *testing.T) {
	for _, message := range []string{"\xff\xfe", strings.Repeat("é", 4<<10), strings.Repeat("\xff", 1<<20)} {
		f := errorFrame(1, message)
		if got := f.GetError().GetMessage(); !utf8.ValidString(got) || len(got) > 16<<10 {
			t.Errorf("%d bytes, valid %v", len(got), utf8.ValidString(got))
		}
		if _, err := proto.Marshal(f); err != nil {
			t.Error(err)
		}
	}
}

func TestChunkIsWhatProtobufReads(t *testing.T) {
	check := func(reqID uint64, data []byte, stderr bool) bool {
		data = data[:min(len(data), runner.SlabSize)]
		slab := runner.NewSlab()
		*slab = append(*slab, data...)
		c := &chunk{reqID: reqID, stream: runner.Stdout, slab: slab}
		if stderr {
			c.stream = runner.Stderr
		}
		out := outbound{frame: c}
		b, err := codec{}.Marshal(&out)
		if err != nil {
			return false
		}
		defer b.Free()
		var f sandboxv1.WorkerFrame
		if err := proto.Unmarshal(b.Materialize(), &f); err != nil {
			return false
		}
		return out.size == b.Len() && proto.Equal(&f, &sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_Chunk{Chunk: &sandboxv1.Chunk{
			ReqId: reqID, Stream: wireStream(c.stream), Data: data,
		}}})
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
	for _, reqID := range []uint64{0, 1, 1<<64 - 1} {
		for _, size := range []int{1, 127, 128, runner.SlabSize} {
			if !check(reqID, make([]byte, size), true) {
				t.Errorf("req_id %d with %d bytes", reqID, size)
			}
		}
	}
}

func decode(t *testing.T, b []byte) inbound {
	t.Helper()
	var in inbound
	if err := (codec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, &in); err != nil {
		t.Fatalf("the stream would end: %v", err)
	}
	return in
}

func TestFramesThatProtobufRefusesCostNobodyElse(t *testing.T) {
	field := func(num protowire.Number, body []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), body)
	}
	id := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 42)
	notUTF8 := field(2, []byte("echo \xff"))
	tests := []struct {
		name   string
		frame  []byte
		answer bool // its caller gets one
		reqID  uint64
	}{
		{"a command that is not UTF-8", field(1, append(id, notUTF8...)), true, 42},
		{"the same under req_id 0", field(1, notUTF8), true, 0},
		{"the number behind it", field(1, append(notUTF8, id...)), true, 42},
		{"garbage", []byte{0xff, 0xff, 0xff}, false, 0},
		{"an exec cut short before its number", field(1, []byte{0x12, 0x7f}), false, 0},
		{"a frame cut short", field(1, id)[:3], false, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := decode(t, test.frame)
			if in.invalid == nil {
				t.Fatal("it is taken for valid")
			}
			if exec := in.frame.GetExec(); (exec != nil) != test.answer || exec.GetReqId() != test.reqID || exec.GetCommand() != "" {
				t.Errorf("got %v", in.frame)
			}
		})
	}
}

func TestUnknownAndEmptyFramesAreNotInvalid(t *testing.T) {
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1)
	for _, b := range [][]byte{nil, unknown} {
		if in := decode(t, b); in.invalid != nil || in.frame.GetMsg() != nil {
			t.Errorf("got %+v", in)
		}
	}
}

func FuzzInbound(f *testing.F) {
	f.Add([]byte{0x0a, 0x02, 0x08, 0x01})
	f.Add([]byte{0x0a, 0x05, 0x08, 0x01, 0x12, 0x01, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		if in := decode(t, b); in.invalid == nil && in.frame == nil {
			t.Error("valid, but no frame")
		}
	})
}

func TestFingerprintCannotBeMovedBetweenFields(t *testing.T) {
	requests := []*sandboxv1.Exec{
		{}, {Command: "ab"}, {Command: "a", Stdin: []byte("b")}, {Stdin: []byte("ab")}, {WorkspaceKey: "ab"},
		{Command: "a", WorkspaceKey: "b"}, {TimeoutS: 1}, {TimeoutS: 256}, {Streaming: true}, {Command: "a\x00b"},
	}
	seen := map[fingerprint]int{}
	for i, r := range requests {
		f := fingerprintOf(r)
		if j, ok := seen[f]; ok {
			t.Errorf("%v and %v look alike", requests[j], r)
		}
		seen[f] = i
		r.ReqId = 77
		if fingerprintOf(r) != f {
			t.Errorf("the number of %v is part of its fingerprint", r)
		}
	}
}
