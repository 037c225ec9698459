package telemetry

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"execworker/daemon/observe"
)

// began is when the execs of these tests were received.
var began = time.Unix(1_700_000_000, 0)

func tracedExec(id uint64) observe.Exec {
	return observe.Exec{
		ID: observe.SandboxID(id), Seq: id, Session: 3, Command: "SECRET-TEXT", CommandBytes: 11, CommandHash: "0123456789abcdef", StdinBytes: 5,
		Timeout: 7 * time.Second, Streaming: true, ReceivedAt: began,
	}
}

// exported is what has come out of s, by name; a name that comes twice is a
// failure.
func exported(t *testing.T, s *Spans, memory *tracetest.InMemoryExporter) map[string]tracetest.SpanStub {
	t.Helper()
	if err := s.provider.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := map[string]tracetest.SpanStub{}
	for _, span := range memory.GetSpans() {
		if _, twice := all[span.Name]; twice {
			t.Errorf("%s is there twice", span.Name)
		}
		all[span.Name] = span
	}
	return all
}

func valueOf(attrs []attribute.KeyValue, key string) any {
	for _, a := range attrs {
		if string(a.Key) == key {
			return a.Value.AsInterface()
		}
	}
	return nil
}

// fullExec is an exec that waited, said something on both streams and was
// aborted, with all that its receipt can say.
func fullExec(s *Spans, x observe.Exec) {
	s.Ask(&aWorker{status: observe.Status{QueueCap: 64}})
	ctx := s.Begin(context.Background(), x)
	x.Trace = s.Trace(ctx)
	for _, e := range []observe.Event{
		observe.Judged{Exec: x, Verdict: observe.VerdictRun, Queued: 4, Running: 2},
		observe.Dequeued{Exec: x, Waited: time.Second},
		observe.Spawned{Exec: x, PID: 99},
		observe.FirstOutput{Exec: x, Stream: "stderr"},
		observe.OutputGrew{Exec: x, Stream: "stdout", First: true, Pieces: 2, StdoutBytes: 10, StderrBytes: 20},
		observe.OutputGrew{Exec: x, Stream: "stdout", Pieces: 4, StdoutBytes: 30, StderrBytes: 40},
		observe.AbortRequested{Exec: x, By: observe.EndedByAdmin, Reason: "SECRET-TEXT"},
		observe.KillBegan{Exec: x, By: observe.EndedByAdmin},
		observe.KillEnded{Exec: x, Containment: observe.Containment{Rounds: 1, Reaped: 2}},
		observe.Ended{Receipt: observe.Receipt{
			Exec: x, Outcome: observe.OutcomeAbort, EndedBy: observe.EndedByAdmin, Reason: "SECRET-TEXT", Error: "SECRET-TEXT", PID: 99, ExitCode: -1, Signal: "SIGKILL",
			StartedAt: began.Add(2 * time.Second), LastOutputAt: began.Add(3 * time.Second), EndedAt: began.Add(10 * time.Second), UserCPU: 11 * time.Millisecond,
			SystemCPU: 12 * time.Millisecond, MaxRSSBytes: 13, StdoutBytes: 14, StderrBytes: 15, StdoutCut: 1, Chunks: 33, StdoutChunks: 16, StderrChunks: 17,
			LargestPiece: 18, LongestBlock: 19 * time.Millisecond, PipeHeld: true,
			Phases: observe.Phases{Run: 4 * time.Second, Drain: 20 * time.Millisecond, SendBlocked: 21 * time.Millisecond},
		}},
	} {
		s.Event(ctx, e)
	}
}

// The table of spans, attribute by attribute: nothing is missing, and nothing is
// there that is not in it.
func TestSpansSayWhatTheTableSays(t *testing.T) {
	s, memory := spansFor(t, TraceOptions{Ratio: 1, CommandName: func(string) string { return "make" }})
	x := tracedExec(7)
	fullExec(s, x)
	spans := exported(t, s, memory)
	tests := []struct {
		name, parent string
		kind         trace.SpanKind
		attrs        map[string]any
		events       []string
	}{
		{"exec", "", trace.SpanKindServer, map[string]any{
			"sandbox.exec.req_id": "7", "sandbox.exec.outcome": "abort", "sandbox.exec.ended_by": "admin", "sandbox.exec.streaming": true,
			"sandbox.exec.timeout_s": int64(7), "sandbox.command.sha256": "0123456789ab", "sandbox.command.name": "make",
			"sandbox.command.size": int64(11), "sandbox.stdin.size": int64(5), "sandbox.stdout.size": int64(14), "sandbox.stderr.size": int64(15),
			"sandbox.output.truncated": true, "sandbox.attach.epoch": int64(3), "sandbox.trace.kept_by": "ratio",
		}, []string{"abort_requested"}},
		{"exec.dispatch", "exec", trace.SpanKindInternal, map[string]any{
			"sandbox.queue.depth": int64(4), "sandbox.queue.limit": int64(64), "sandbox.pool.running": int64(2),
		}, nil},
		{"exec.spawn", "exec", trace.SpanKindInternal, map[string]any{"process.executable.path": "bash", "process.pid": int64(99)}, nil},
		{"bash", "exec", trace.SpanKindClient, map[string]any{
			"process.executable.name": "bash", "process.pid": int64(99), "process.group_leader.pid": int64(99), "sandbox.signal": "SIGKILL",
			"process.cpu.user_ms": int64(11), "process.cpu.system_ms": int64(12), "process.max_rss": int64(13),
		}, []string{"first_stderr", "first_stdout", "last_output"}},
		{"exec.stream", "bash", trace.SpanKindInternal, map[string]any{
			"sandbox.stdout.bytes": int64(14), "sandbox.stderr.bytes": int64(15), "sandbox.stdout.chunks": int64(16), "sandbox.stderr.chunks": int64(17),
			"sandbox.chunk.max": int64(18), "sandbox.send.max_ms": int64(19), "sandbox.drain_ms": int64(20), "sandbox.send.blocked_ms": int64(21),
			"sandbox.wait_delay_hit": true,
		}, []string{"output", "output"}},
		{"exec.kill", "bash", trace.SpanKindInternal, map[string]any{
			"sandbox.kill.reason": "admin", "sandbox.kill.signal": "SIGKILL", "containment.rounds": int64(1), "containment.reaped": int64(2), "containment.left": int64(0),
		}, nil},
	}
	for _, tt := range tests {
		span, there := spans[tt.name]
		if !there {
			t.Errorf("no %s", tt.name)
			continue
		}
		if parent := spans[tt.parent].SpanContext.SpanID(); span.Parent.SpanID() != parent || span.SpanContext.TraceID() != traceID("sbx-1", x.ID) {
			t.Errorf("%s is below %s in %s, want below %q", tt.name, span.Parent.SpanID(), span.SpanContext.TraceID(), tt.parent)
		}
		if span.SpanKind != tt.kind || span.Status.Code != codes.Unset {
			t.Errorf("%s is a %s with status %v", tt.name, span.SpanKind, span.Status)
		}
		for _, a := range span.Attributes {
			if want, known := tt.attrs[string(a.Key)]; !known || want != a.Value.AsInterface() {
				t.Errorf("%s: %s is %v, want %v", tt.name, a.Key, a.Value.AsInterface(), want)
			}
		}
		if len(span.Attributes) != len(tt.attrs) {
			t.Errorf("%s has %d attributes, want %d: %v", tt.name, len(span.Attributes), len(tt.attrs), span.Attributes)
		}
		var events []string
		for _, e := range span.Events {
			events = append(events, e.Name)
		}
		if slices.Sort(events); !slices.Equal(events, tt.events) {
			t.Errorf("%s has events %v, want %v", tt.name, events, tt.events)
		}
	}
	if len(spans) != len(tests) {
		t.Errorf("%d spans, want %d", len(spans), len(tests))
	}
	second := spans["exec.stream"].Events[1].Attributes
	if valueOf(second, "sandbox.output.pieces") != int64(4) || valueOf(second, "sandbox.stdout.bytes") != int64(30) || valueOf(second, "sandbox.stderr.bytes") != int64(40) {
		t.Errorf("the second milestone says %v", second)
	}
}

// What the receipt knows to the nanosecond is not guessed by the clock: the
// queue ends where the slot began, and bash with main, before its output does.
func TestSpansHaveTheTimesOfTheReceipt(t *testing.T) {
	s, memory := spansFor(t, TraceOptions{Ratio: 1})
	fullExec(s, tracedExec(7))
	spans := exported(t, s, memory)
	for name, want := range map[string][2]time.Duration{ // from the frame; negative: not known
		"exec": {0, 10 * time.Second}, "exec.dispatch": {0, time.Second}, "exec.spawn": {time.Second, -1}, "bash": {-1, 6 * time.Second}, "exec.stream": {-1, 10 * time.Second},
	} {
		start, end := spans[name].StartTime.Sub(began), spans[name].EndTime.Sub(began)
		if want[0] >= 0 && start != want[0] || want[1] >= 0 && end != want[1] {
			t.Errorf("%s goes from %v to %v, want %v", name, start, end, want)
		}
	}
	for _, e := range spans["bash"].Events {
		if e.Name == "last_output" && e.Time.Sub(began) != 3*time.Second {
			t.Errorf("the last output is at %v", e.Time.Sub(began))
		}
	}
}

// A search that finds nothing exits with 1, and an abort was wished for: neither
// is a failure of the worker's.
func TestStatusSaysWhatFailed(t *testing.T) {
	tests := []struct {
		receipt observe.Receipt
		nonzero bool
		code    codes.Code
		kind    any
	}{
		{receipt: observe.Receipt{Outcome: observe.OutcomeExit}},
		{receipt: observe.Receipt{Outcome: observe.OutcomeExit, ExitCode: 1}},
		{receipt: observe.Receipt{Outcome: observe.OutcomeExit, ExitCode: 1}, nonzero: true, code: codes.Error, kind: "exit"},
		{receipt: observe.Receipt{Outcome: observe.OutcomeExit}, nonzero: true},
		{receipt: observe.Receipt{Outcome: observe.OutcomeAbort, ExitCode: -1}},
		{receipt: observe.Receipt{Outcome: observe.OutcomeTimeout}, code: codes.Error, kind: "timeout"},
		{receipt: observe.Receipt{Outcome: observe.OutcomeSignal, Signal: "SIGSEGV"}, code: codes.Error, kind: "SIGSEGV"},
		{receipt: observe.Receipt{Outcome: observe.OutcomeSignal, Signal: "SIGKILL", EndedBy: observe.EndedByOOM}, code: codes.Error, kind: "oom"},
		{receipt: observe.Receipt{Outcome: observe.OutcomeSpawnError, Error: "spawn: chdir: no such file or directory"}, code: codes.Error, kind: "ENOENT"},
		{receipt: observe.Receipt{Outcome: observe.OutcomeSpawnError, Error: "spawn: EVIL"}, code: codes.Error, kind: otherError},
		{receipt: observe.Receipt{Outcome: observe.OutcomeRefused}, code: codes.Error, kind: "refused"},
		{receipt: observe.Receipt{Outcome: observe.OutcomeLost}, code: codes.Error, kind: "stream_lost"},
		{receipt: observe.Receipt{Outcome: observe.OutcomeDrained}, code: codes.Error, kind: "drained"},
		{receipt: observe.Receipt{Outcome: observe.OutcomeUncontained}, code: codes.Error, kind: "uncontained"},
	}
	for _, tt := range tests {
		s, memory := spansFor(t, TraceOptions{Ratio: 1, NonzeroBad: tt.nonzero})
		ctx := s.Begin(t.Context(), tracedExec(1))
		s.Event(ctx, observe.Judged{Exec: tracedExec(1), Verdict: observe.VerdictRun})
		s.Event(ctx, observe.Dequeued{Exec: tracedExec(1)})
		tt.receipt.Exec, tt.receipt.EndedAt = tracedExec(1), began.Add(time.Second)
		s.Event(ctx, observe.Ended{Receipt: tt.receipt})
		spans := exported(t, s, memory)
		if root := spans["exec"]; root.Status.Code != tt.code || valueOf(root.Attributes, "error.type") != tt.kind || root.Status.Description != "" {
			t.Errorf("%+v: status %v, error.type %v", tt.receipt, root.Status, valueOf(root.Attributes, "error.type"))
		}
		if spawn := spans["exec.spawn"]; tt.receipt.Outcome == observe.OutcomeSpawnError && (spawn.Status.Code != codes.Error || valueOf(spawn.Attributes, "error.type") != tt.kind) {
			t.Errorf("%+v: spawn is %v with %v", tt.receipt, spawn.Status, spawn.Attributes)
		}
	}
}

// A command that says something for ever costs its span no more events than one
// that says a little.
func TestMilestonesAreBounded(t *testing.T) {
	s, memory := spansFor(t, TraceOptions{Ratio: 1})
	x := tracedExec(1)
	ctx := s.Begin(t.Context(), x)
	s.Event(ctx, observe.Spawned{Exec: x, PID: 9})
	for n := range int64(200) {
		s.Event(ctx, observe.OutputGrew{Exec: x, Stream: "stdout", Pieces: n})
	}
	s.Event(ctx, observe.Ended{Receipt: observe.Receipt{Exec: x, PID: 9, Outcome: observe.OutcomeExit, EndedAt: time.Now()}})
	if n := len(exported(t, s, memory)["exec.stream"].Events); n != milestonesMost {
		t.Errorf("%d events, want %d", n, milestonesMost)
	}
}

// No text of an event, wherever it has room for any, is on a span.
func TestNoTextOfAnEventIsOnASpan(t *testing.T) {
	const text = "EVIL\xff\x00\x1b[2J"
	memory := tracetest.NewInMemoryExporter()
	s := NewSpans(TraceOptions{Ratio: 1, SandboxID: "sbx-1", Exporter: memory, Provider: []sdktrace.TracerProviderOption{sdktrace.WithRawSpanLimits(spanLimits())}})
	defer s.Close(context.Background())
	tell := func(x observe.Exec, events ...observe.Event) {
		ctx := s.Begin(t.Context(), x)
		for _, e := range events {
			s.Event(ctx, e)
		}
	}
	for _, at := range []time.Time{{}, time.Now()} {
		x := filled[observe.Exec](text, at)
		x.ID = observe.SandboxID(7) // decimal, by its type
		x.CommandHash = "0123456789abcdef"
		for _, v := range []observe.Verdict{observe.VerdictRun, observe.VerdictWait, observe.VerdictJoin, observe.VerdictReplay, observe.VerdictBusy, observe.VerdictRefused, observe.VerdictConflict, "EVIL"} {
			judged := filled[observe.Judged](text, at)
			judged.Verdict = v
			tell(x, judged)
		}
		for _, o := range append([]observe.Outcome{"EVIL"}, outcomes...) {
			ended := filled[observe.Ended](text, at)
			ended.Receipt.Outcome = o
			tell(x, observe.Judged{Verdict: observe.VerdictRun}, filled[observe.Dequeued](text, at), filled[observe.Spawned](text, at), filled[observe.FirstOutput](text, at),
				filled[observe.OutputGrew](text, at), filled[observe.AbortRequested](text, at), filled[observe.KillBegan](text, at), filled[observe.KillEnded](text, at), ended)
		}
		s.Event(t.Context(), filled[observe.Dialing]("relay.example:1", at))
		s.Event(t.Context(), filled[observe.SessionEnded](text, at))
	}
	if err := s.provider.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(memory.GetSpans()); n < 50 {
		t.Errorf("%d spans", n)
	}
	for _, span := range memory.GetSpans() {
		said := []string{span.Name, span.Status.Description}
		note := func(attrs []attribute.KeyValue) {
			for _, a := range attrs {
				said = append(said, string(a.Key), a.Value.String())
			}
		}
		note(span.Attributes)
		for _, e := range span.Events {
			said = append(said, e.Name)
			note(e.Attributes)
		}
		if all := strings.Join(said, " "); strings.Contains(all, "EVIL") || !utf8.ValidString(all) || strings.ContainsAny(all, "\x00\x1b") {
			t.Errorf("%q", all)
		}
	}
}
