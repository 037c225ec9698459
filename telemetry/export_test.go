package telemetry

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"execworker/daemon/observe"
)

func TestExportOptions(t *testing.T) {
	for _, c := range []struct {
		env             string // NAME=value, spaces between
		traces, metrics string
		protocol        string
		endpoint        string
		ratio           float64
		err             string
	}{
		{"", "none", "none", "http/protobuf", "", 1, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", "otlp", "otlp", "http/protobuf", "http://c:4318", 1, ""},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:4317 OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "otlp", "none", "grpc", "http://c:4317", 1, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=https://user:secret@c:4318/x?key=secret", "otlp", "otlp", "http/protobuf", "https://c:4318/x", 1, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318 OTEL_METRICS_EXPORTER=none", "otlp", "none", "http/protobuf", "http://c:4318", 1, ""},
		{"OTEL_TRACES_EXPORTER=otlp", "otlp", "none", "http/protobuf", "", 1, ""},
		{"OTEL_TRACES_EXPORTER=console", "console", "none", "http/protobuf", "", 1, ""},
		{"OTEL_SDK_DISABLED=true OTEL_TRACES_EXPORTER=otlp", "none", "none", "http/protobuf", "", 1, ""},
		{"OTEL_TRACES_SAMPLER=always_off", "none", "none", "http/protobuf", "", 0, ""},
		{"OTEL_TRACES_SAMPLER=parentbased_traceidratio OTEL_TRACES_SAMPLER_ARG=0.25", "none", "none", "http/protobuf", "", 0.25, ""},
		{"OTEL_TRACES_EXPORTER=zipkin", "", "", "", "", 0, "OTEL_TRACES_EXPORTER"},
		{"OTEL_METRICS_EXPORTER=console", "", "", "", "", 0, "OTEL_METRICS_EXPORTER"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL=http/json", "", "", "", "", 0, "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4317", "", "", "", "", 0, "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"OTEL_TRACES_SAMPLER=sometimes", "", "", "", "", 0, "OTEL_TRACES_SAMPLER"},
		{"OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=2", "", "", "", "", 0, "OTEL_TRACES_SAMPLER_ARG"},
		{"OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=NaN", "", "", "", "", 0, "OTEL_TRACES_SAMPLER_ARG"},
		{"OTEL_SDK_DISABLED=maybe", "", "", "", "", 0, "OTEL_SDK_DISABLED"},
	} {
		env := map[string]string{}
		for pair := range strings.FieldsSeq(c.env) {
			name, value, _ := strings.Cut(pair, "=")
			env[name] = value
		}
		o, err := ReadExportOptions(func(name string) string { return env[name] })
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: error %v", c.env, err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.env, err)
		case o.Traces != c.traces || o.Metrics != c.metrics || o.TracesProtocol != c.protocol || o.TracesEndpoint != c.endpoint || o.Ratio != c.ratio:
			t.Errorf("%s: %+v", c.env, o)
		}
	}
}

// Whoever knows sandbox and req_id can find the trace with a shell.
func TestTraceIDCanBeComputed(t *testing.T) {
	out, err := exec.Command("bash", "-c", "printf 'sandbox.v1|sbx-1|7' | sha256sum | cut -c1-32").Output()
	if err != nil {
		t.Skip(err)
	}
	if got := traceID("sbx-1", observe.SandboxID(7)).String(); got != string(bytes.TrimSpace(out)) {
		t.Errorf("%s, the shell says %s", got, out)
	}
}

// spans makes an observer that exports into memory at once.
func spansFor(t testing.TB, o TraceOptions) (*Spans, *tracetest.InMemoryExporter) {
	memory := tracetest.NewInMemoryExporter()
	o.Exporter, o.SandboxID = memory, "sbx-1"
	s := NewSpans(o)
	t.Cleanup(func() { s.Close(context.Background()) })
	return s, memory
}

// run has an exec through its life.
func run(s *Spans, id uint64, took time.Duration, outcome observe.Outcome) {
	x := observe.Exec{ID: observe.SandboxID(id), Seq: id, ReceivedAt: time.Now().Add(-took), CommandHash: "0123456789abcdef"}
	ctx := s.Begin(context.Background(), x)
	x.Trace = s.Trace(ctx)
	s.Event(ctx, observe.Judged{Exec: x, Verdict: observe.VerdictRun})
	s.Event(ctx, observe.Dequeued{Exec: x})
	s.Event(ctx, observe.Spawned{Exec: x, PID: 9})
	s.Event(ctx, observe.FirstOutput{Exec: x, Stream: "stdout"})
	s.Event(ctx, observe.Ended{Receipt: observe.Receipt{Exec: x, PID: 9, Outcome: outcome, EndedAt: time.Now()}})
}

func TestWhatIsNotSampledIsKeptIfSlowOrFailed(t *testing.T) {
	s, memory := spansFor(t, TraceOptions{Ratio: 0, Slow: time.Second})
	run(s, 1, 0, observe.OutcomeExit)
	run(s, 2, 2*time.Second, observe.OutcomeExit)
	run(s, 3, 0, observe.OutcomeTimeout)
	run(s, 4, 0, observe.OutcomeAbort)
	s.provider.ForceFlush(context.Background())
	roots := map[string]int{}
	for _, span := range memory.GetSpans() {
		if !span.SpanContext.IsSampled() {
			t.Errorf("%s is exported as not sampled", span.Name)
		}
		roots[span.SpanContext.TraceID().String()]++
	}
	want := map[string]int{traceID("sbx-1", observe.SandboxID(2)).String(): 5, traceID("sbx-1", observe.SandboxID(3)).String(): 5}
	if fmt.Sprint(roots) != fmt.Sprint(want) {
		t.Errorf("exported %v, want %v", roots, want)
	}
	if len(s.keeper.open) > 0 || s.keeper.places != 0 {
		t.Errorf("%d spans and %d places are kept after the end", len(s.keeper.open), s.keeper.places)
	}
}

// More execs at once than there are places cost spans, which are counted, and
// nothing else.
func TestBuffersOfUnsampledTracesAreBounded(t *testing.T) {
	s, _ := spansFor(t, TraceOptions{Ratio: 0, Slow: time.Hour})
	var ctxs []context.Context
	for id := range uint64(keptTraces + 10) {
		ctxs = append(ctxs, s.Begin(context.Background(), observe.Exec{ID: observe.SandboxID(id), CommandHash: "0123456789abcdef"}))
	}
	if s.keeper.places != keptTraces || s.keeper.dropped.Load() != 10 {
		t.Errorf("%d places, %d dropped", s.keeper.places, s.keeper.dropped.Load())
	}
	for _, ctx := range ctxs {
		s.Event(ctx, observe.Ended{Receipt: observe.Receipt{Outcome: observe.OutcomeExit, EndedAt: time.Now()}})
	}
	if s.keeper.places != 0 {
		t.Errorf("%d places after the end", s.keeper.places)
	}
}

// A sampler that keeps nothing makes spans that record nothing.
func TestWithoutKeepingUnsampledSpansCostNothing(t *testing.T) {
	s, memory := spansFor(t, TraceOptions{Ratio: 0})
	run(s, 1, time.Hour, observe.OutcomeTimeout)
	s.provider.ForceFlush(context.Background())
	if n := len(memory.GetSpans()); n > 0 {
		t.Errorf("%d spans", n)
	}
}

func BenchmarkExecSpans(b *testing.B) {
	for name, o := range map[string]TraceOptions{"sampled": {Ratio: 1}, "kept": {Ratio: 0, Slow: time.Hour}, "off": {Ratio: 0}} {
		b.Run(name, func(b *testing.B) {
			o.Exporter = discard{}
			s := NewSpans(o)
			defer s.Close(context.Background())
			b.ReportAllocs()
			for b.Loop() {
				run(s, 1, 0, observe.OutcomeExit)
			}
		})
	}
}

type discard struct{}

func (discard) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (discard) Shutdown(context.Context) error                             { return nil }
