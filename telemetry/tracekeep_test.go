package telemetry

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"execworker/daemon/observe"
)

func TestReplayAndJoinAreLinkedToTheirOriginal(t *testing.T) {
	original := observe.Trace{ID: strings.Repeat("ab", 16), SpanID: strings.Repeat("cd", 8), Sampled: true}
	for verdict, outcome := range map[observe.Verdict]string{observe.VerdictReplay: "dedup_hit", observe.VerdictJoin: "joined"} {
		s, memory := spansFor(t, TraceOptions{Ratio: 1})
		x := tracedExec(1)
		s.Event(s.Begin(t.Context(), x), observe.Judged{Exec: x, Verdict: verdict, Original: original})
		s.Event(s.Begin(t.Context(), x), observe.Judged{Exec: x, Verdict: verdict}) // the original has no trace
		s.provider.ForceFlush(t.Context())
		spans := memory.GetSpans()
		if len(spans) != 2 || len(spans[0].Links) != 1 || len(spans[1].Links) != 0 {
			t.Fatalf("%s: %+v", verdict, spans)
		}
		to := spans[0].Links[0].SpanContext
		if to.TraceID().String() != original.ID || to.SpanID().String() != original.SpanID || !to.IsSampled() {
			t.Errorf("%s is linked to %v", verdict, to)
		}
		if valueOf(spans[0].Attributes, "sandbox.exec.outcome") != outcome || spans[0].Status.Code != codes.Unset {
			t.Errorf("%s: %+v", verdict, spans[0])
		}
	}
}

func TestRefusalIsAnErrorWithItsReason(t *testing.T) {
	for _, tt := range []struct {
		verdict observe.Verdict
		reason  string
		kind    string
		events  string
	}{
		{observe.VerdictBusy, "busy: queue full", "queue_full", "refused"},
		{observe.VerdictConflict, "req_id conflict: …", "collision", "collision refused"},
		{observe.VerdictRefused, "invalid frame: …", "invalid", "refused"},
	} {
		s, memory := spansFor(t, TraceOptions{Ratio: 1})
		x := tracedExec(1)
		s.Event(s.Begin(t.Context(), x), observe.Judged{Exec: x, Verdict: tt.verdict, Reason: tt.reason})
		root := exported(t, s, memory)["exec"]
		var events []string
		for _, e := range root.Events {
			events = append(events, e.Name)
		}
		if root.Status.Code != codes.Error || valueOf(root.Attributes, "error.type") != tt.kind || strings.Join(events, " ") != tt.events {
			t.Errorf("%s: %v, %v, events %v", tt.verdict, root.Status, root.Attributes, events)
		}
	}
}

// An attempt is a trace of its own; the execs of its session are linked to it,
// and those of no session to nothing.
func TestExecIsLinkedToItsAttempt(t *testing.T) {
	s, memory := spansFor(t, TraceOptions{Ratio: 1})
	dialed := observe.Session{Number: 3, Target: "relay.example:8443", Attempt: 2, Backoff: time.Second, DialedAt: began}
	over := dialed
	over.HelloAt, over.EndedAt = began.Add(time.Second), began.Add(time.Hour)
	s.Event(t.Context(), observe.Dialing{Session: dialed})
	s.Event(t.Context(), observe.Attached{Session: over})
	run(s, 1, 0, observe.OutcomeExit)
	s.Event(t.Context(), observe.SessionEnded{Session: over})
	of := exported(t, s, memory)
	memory.Reset()
	attach := of["attach"]
	if links := of["exec"].Links; len(links) != 1 || links[0].SpanContext.SpanID() != attach.SpanContext.SpanID() {
		t.Errorf("linked to %v", links)
	}
	if attach.Parent.IsValid() || attach.SpanContext.TraceID() == of["exec"].SpanContext.TraceID() || attach.SpanKind != trace.SpanKindClient || attach.Status.Code != codes.Unset ||
		attach.EndTime.Sub(attach.StartTime) != time.Second {
		t.Errorf("attach: %+v", attach)
	}
	for key, want := range map[string]any{
		"rpc.system": "grpc", "rpc.service": "sandbox.v1.SandboxWorker", "rpc.method": "Attach", "server.address": "relay.example", "server.port": int64(8443),
		"sandbox.attach.epoch": int64(3), "sandbox.attach.attempt": int64(2), "sandbox.attach.backoff_ms": int64(1000), "error.type": nil,
	} {
		if got := valueOf(attach.Attributes, key); got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	run(s, 2, 0, observe.OutcomeExit)
	if links := exported(t, s, memory)["exec"].Links; len(links) != 0 {
		t.Errorf("after the session it is linked to %v", links)
	}
}

func TestFailedAttemptIsKept(t *testing.T) {
	for _, tt := range []struct{ code, kind string }{{"Unavailable", "Unavailable"}, {"", otherError}, {"EVIL", otherError}} {
		s, memory := spansFor(t, TraceOptions{Ratio: 0, Slow: time.Hour})
		x := observe.Session{Number: 1, Target: "relay.example:1", DialedAt: began}
		s.Event(t.Context(), observe.Dialing{Session: x})
		x.Code, x.EndedAt = tt.code, began.Add(time.Second)
		s.Event(t.Context(), observe.SessionEnded{Session: x})
		s.Event(t.Context(), observe.Dialing{Session: observe.Session{Number: 2, Target: "relay.example:1"}})
		s.Event(t.Context(), observe.Attached{Session: observe.Session{Number: 2}})
		of := exported(t, s, memory) // not the second, which went well
		if a := of["attach"]; a.Status.Code != codes.Error || valueOf(a.Attributes, "error.type") != tt.kind || len(memory.GetSpans()) != 1 {
			t.Errorf("%q: %+v", tt.code, memory.GetSpans())
		}
		if len(s.attempts) != 0 {
			t.Error("an attempt that is over is remembered")
		}
	}
}

// One exec takes no more than its share of what is kept, and its root always has
// a place.
func TestSpansOfOneUnsampledExecAreBounded(t *testing.T) {
	s, memory := spansFor(t, TraceOptions{Ratio: 0, Slow: time.Hour})
	x := tracedExec(1)
	ctx := s.Begin(t.Context(), x)
	for range keptSpans + 8 {
		_, span := s.tracer.Start(execOf(ctx).ctx, "exec.kill")
		span.End()
	}
	s.Event(ctx, observe.Ended{Receipt: observe.Receipt{Exec: x, Outcome: observe.OutcomeTimeout, EndedAt: time.Now()}})
	s.provider.ForceFlush(t.Context())
	roots := 0
	for _, span := range memory.GetSpans() {
		if span.Name == "exec" {
			roots++
		}
	}
	if n := len(memory.GetSpans()); n != keptSpans+1 || roots != 1 || s.keeper.dropped.Load() != 8 {
		t.Errorf("%d spans with %d roots, %d dropped", n, roots, s.keeper.dropped.Load())
	}
}

// A command is promised what is decided at once, not what may be kept later.
func TestCommandIsToldTheHeadsDecision(t *testing.T) {
	for _, tt := range []struct {
		options TraceOptions
		flag    string
	}{{TraceOptions{Ratio: 1}, "01"}, {TraceOptions{Ratio: 0, Slow: time.Second}, "00"}, {TraceOptions{Ratio: 0}, "00"}} {
		s, _ := spansFor(t, tt.options)
		ctx := s.Begin(t.Context(), tracedExec(7))
		env := s.ChildEnv(ctx)
		x := execOf(ctx)
		want := "TRACEPARENT=00-" + traceID("sbx-1", observe.SandboxID(7)).String() + "-" + x.runID.String() + "-" + tt.flag
		if len(env) != 2 || env[0] != want || env[1] != "TRACESTATE" {
			t.Errorf("%+v: %q, want %q", tt.options, env, want)
		}
		if got := s.Trace(ctx); got.ID != traceID("sbx-1", observe.SandboxID(7)).String() || got.SpanID != x.root.SpanContext().SpanID().String() || got.Sampled != (tt.flag == "01") {
			t.Errorf("%+v: %+v", tt.options, got)
		}
	}
	s, _ := spansFor(t, TraceOptions{Ratio: 1, NoChildEnv: true})
	if env := s.ChildEnv(s.Begin(t.Context(), tracedExec(7))); env != nil {
		t.Errorf("told not to, it says %q", env)
	}
	if env, at := s.ChildEnv(t.Context()), s.Trace(t.Context()); env != nil || at != (observe.Trace{}) {
		t.Errorf("of no exec it says %q, %+v", env, at)
	}
}

func TestRandomTraceIDsTellNothing(t *testing.T) {
	s, _ := spansFor(t, TraceOptions{Ratio: 1, RandomIDs: true})
	one, other := s.Trace(s.Begin(t.Context(), tracedExec(7))), s.Trace(s.Begin(t.Context(), tracedExec(7)))
	if known := traceID("sbx-1", observe.SandboxID(7)).String(); one.ID == other.ID || one.ID == known {
		t.Errorf("%s and %s", one.ID, other.ID)
	}
}

// The ratio holds for trace ids that are made of req_ids, which count up.
func TestRatioHoldsForDeterministicIDs(t *testing.T) {
	s, _ := spansFor(t, TraceOptions{Ratio: 0.25})
	sampled := 0
	for id := range uint64(4000) {
		if s.Trace(s.Begin(context.Background(), tracedExec(id))).Sampled {
			sampled++
		}
	}
	if sampled < 900 || sampled > 1100 { // the ids are always the same, so this is no luck
		t.Errorf("%d of 4000 are sampled", sampled)
	}
}

// The metrics of an exec name its trace if that is exported, be it only kept.
func TestExemplarNamesATraceThatIsExported(t *testing.T) {
	for _, tt := range []struct {
		name    string
		ratio   float64
		outcome observe.Outcome
		want    bool
	}{{"sampled", 1, observe.OutcomeExit, true}, {"kept", 0, observe.OutcomeTimeout, true}, {"dropped", 0, observe.OutcomeExit, false}} {
		s, _ := spansFor(t, TraceOptions{Ratio: tt.ratio, Slow: time.Hour})
		m := newMetrics(t)
		both := observe.Observers{s, m}
		x := tracedExec(7)
		x.ReceivedAt = time.Now()
		ctx := both.Begin(t.Context(), x)
		both.Event(ctx, observe.Judged{Exec: x, Verdict: observe.VerdictRun})
		both.Event(ctx, observe.Ended{Receipt: observe.Receipt{Exec: x, Outcome: tt.outcome, EndedAt: time.Now()}})
		page := scrape(t, m, openMetrics)
		if got := strings.Contains(page, `trace_id="`+traceID("sbx-1", x.ID).String()+`"`); got != tt.want {
			t.Errorf("%s: the page names the trace: %v\n%s", tt.name, got, page)
		}
	}
}
