package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"execworker/test/otlpsink"
	"execworker/test/relaytest"

	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/codes"
)

// traced is the environment of a worker that sends its traces to a collector.
func traced(endpoint string, more ...string) relaytest.Env {
	env := relaytest.Env{
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_BSP_SCHEDULE_DELAY": "50",
	}
	for i := 0; i < len(more); i += 2 {
		env[more[i]] = more[i+1]
	}
	return env
}

// ofExec picks the spans of one exec, by name.
func ofExec(spans []*tracev1.Span, id uint64) map[string]*tracev1.Span {
	sum := sha256.Sum256(fmt.Appendf(nil, "sandbox.v1|relaytest|%d", id))
	found := map[string]*tracev1.Span{}
	for _, s := range spans {
		if hex.EncodeToString(s.GetTraceId()) == hex.EncodeToString(sum[:16]) {
			found[s.GetName()] = s
		}
	}
	return found
}

// rooted says that the traces of these execs are complete.
func rooted(ids ...uint64) func([]*tracev1.Span) bool {
	return func(spans []*tracev1.Span) bool {
		for _, id := range ids {
			if ofExec(spans, id)["exec"] == nil {
				return false
			}
		}
		return true
	}
}

func attribute(s *tracev1.Span, key string) *commonv1.AnyValue {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue()
		}
	}
	return nil
}

func TestTraceExplainsAnExec(t *testing.T) {
	sink := otlpsink.Start(t, codes.OK)
	_, s, w := attach(t, traced(sink.Endpoint()))
	s.Exec(t, 7, "echo $TRACEPARENT; sleep 300", streaming)
	s.WaitOutput(t, 7, "-01\n")
	parent := strings.Split(strings.TrimSpace(string(s.Frames(7)[0].Chunk.GetData())), "-")
	var list struct{ Execs []map[string]any }
	overSocket(w).get(t, "/admin/inflight?format=json", &list)
	s.Abort(t, 7)
	s.WantEnd(t, 7, -1)
	spans := ofExec(sink.Wait(t, rooted(7)), 7)
	root, run := spans["exec"], spans["bash"]
	if list.Execs[0]["trace_id"] != hex.EncodeToString(root.GetTraceId()) || list.Execs[0]["span_id"] != hex.EncodeToString(root.GetSpanId()) || list.Execs[0]["sampled"] != true {
		t.Errorf("the list shows %v", list.Execs[0])
	}
	for name, under := range map[string]string{"exec.dispatch": "exec", "exec.spawn": "exec", "bash": "exec", "exec.stream": "bash", "exec.kill": "bash"} {
		child := spans[name]
		if child == nil || hex.EncodeToString(child.GetParentSpanId()) != hex.EncodeToString(spans[under].GetSpanId()) {
			t.Errorf("%s is not there, or not under %s", name, under)
			continue
		}
		if child.GetStartTimeUnixNano() < root.GetStartTimeUnixNano() || child.GetEndTimeUnixNano() > root.GetEndTimeUnixNano() {
			t.Errorf("%s is outside its exec", name)
		}
	}
	if len(parent) != 4 || parent[1] != hex.EncodeToString(root.GetTraceId()) || parent[2] != hex.EncodeToString(run.GetSpanId()) {
		t.Errorf("the command got %q, the run is %x", parent, run.GetSpanId())
	}
	if attribute(root, "sandbox.exec.req_id").GetStringValue() != "7" || attribute(root, "sandbox.exec.outcome").GetStringValue() != "abort" || root.GetStatus().GetCode() != tracev1.Status_STATUS_CODE_UNSET {
		t.Errorf("root: %v", root)
	}
	if len(root.GetLinks()) != 1 {
		t.Errorf("it is linked to %d attempts", len(root.GetLinks()))
	}
}

// What is slow or failed is exported whatever the sampler says, and whole; the
// rest is not, and no command is promised that it will be.
func TestSlowAndFailedExecsAreKept(t *testing.T) {
	sink := otlpsink.Start(t, codes.OK)
	_, s, _ := attach(t, traced(sink.Endpoint(), "OTEL_TRACES_SAMPLER", "always_off", "TRACE_SLOW", "500ms"))
	s.Exec(t, 1, "echo ${TRACEPARENT##*-}")
	s.WantEnd(t, 1, 0)
	s.WantOutput(t, 1, "00\n", "")
	s.Exec(t, 2, "sleep 0.7")
	s.WantEnd(t, 2, 0)
	s.Exec(t, 3, "kill -SEGV $$")
	s.WantEnd(t, 3, -1)
	spans := sink.Wait(t, rooted(2, 3))
	if len(ofExec(spans, 1)) > 0 {
		t.Error("a quick one that went well is exported")
	}
	for id, why := range map[uint64]string{2: "slow", 3: "failed"} {
		of := ofExec(spans, id)
		if attribute(of["exec"], "sandbox.trace.kept_by").GetStringValue() != why || of["bash"] == nil || of["exec.spawn"] == nil {
			t.Errorf("%d: %v", id, of)
		}
	}
}

// One bad string must not cost the batch: protobuf refuses what is not UTF-8.
func TestCaseO23BadStringsLoseNoSpan(t *testing.T) {
	sink := otlpsink.Start(t, codes.OK)
	_, s, _ := attach(t, traced(sink.Endpoint(), "OTEL_BSP_SCHEDULE_DELAY", "500"))
	s.Exec(t, 32, "echo innocent")
	s.Exec(t, 33, `printf '\377\376' >&2; exit 1`)
	s.Exec(t, 34, "echo a\x00b")
	s.Exec(t, 35, "cd /\xc3\xa9; $'\\377' x", relaytest.Key("../\u202e"))
	s.WantEnd(t, 32, 0)
	s.WantEnd(t, 33, 1)
	s.WantError(t, 34, "")
	s.WantError(t, 35, "")
	for _, span := range sink.Wait(t, rooted(32, 33, 34, 35)) {
		text := span.String()
		if !utf8.ValidString(text) || strings.Contains(text, "innocent") {
			t.Errorf("%q", text)
		}
	}
}

// A collector that is away, silent, or says no costs execs nothing, and the end
// of the worker a few seconds at most.
func TestCaseO24DeadCollectorDelaysNothing(t *testing.T) {
	for name, endpoint := range map[string]func(*testing.T) string{
		"absent":      func(*testing.T) string { return "http://127.0.0.1:1" },
		"silent":      func(t *testing.T) string { return otlpsink.Silent(t) },
		"unavailable": func(t *testing.T) string { return otlpsink.Start(t, codes.Unavailable).Endpoint() },
		"refusing":    func(t *testing.T) string { return otlpsink.Start(t, codes.ResourceExhausted).Endpoint() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, s, w := attach(t, traced(endpoint(t)))
			marker := relaytest.Marker()
			began := time.Now()
			for id := uint64(1); id <= 20; id++ {
				s.Exec(t, id, "true")
				s.WantEnd(t, id, 0)
			}
			within(t, "20 execs", time.Since(began), 10*time.Second)
			s.Exec(t, 21, "(exec -a "+marker+" sleep 300) & sleep 300")
			relaytest.WaitProcess(t, marker, 1)
			began = time.Now()
			w.Signal(t, 15)
			if code := w.Wait(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
			within(t, "the end", time.Since(began), 12*time.Second) // drain 1 s, export 3 s
			relaytest.WantNoProcess(t, marker)
		})
	}
}

func TestNothingConfiguredExportsNothing(t *testing.T) {
	_, s, w := attach(t, nil)
	alive(t, s)
	var status struct {
		Telemetry struct{ Traces, Metrics struct{ Exporter string } }
	}
	overSocket(w).get(t, "/admin/status?format=json", &status)
	if status.Telemetry.Traces.Exporter != "none" || status.Telemetry.Metrics.Exporter != "none" {
		t.Errorf("%+v", status)
	}
}
