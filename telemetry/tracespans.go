package telemetry

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"execworker/daemon/observe"
)

// execSpans are the spans of one exec:
//
//	exec ─┬─ exec.dispatch   received to slot
//	      ├─ exec.spawn      slot to running main
//	      └─ bash ─┬─ exec.stream   first output until all of it is on its way
//	               └─ exec.kill     decision to proof
//
// bash ends with main, and exec.stream later when its output had to be waited
// for. A span that has not begun is nil.
type execSpans struct {
	mu                                 sync.Mutex
	ctx                                context.Context // of the root
	runCtx                             context.Context
	runID                              trace.SpanID // made before the run, for TRACEPARENT
	root, dispatch, spawn, run, stream trace.Span
	kill                               trace.Span
	milestones                         int // on the stream
	kept                               kept
}

func (s *Spans) start(ctx context.Context, name string, kind trace.SpanKind, at time.Time, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	return s.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithTimestamp(at), trace.WithAttributes(attrs...))
}

// step makes of an event what it means for the spans.
func (s *Spans) step(x *execSpans, e observe.Event) {
	switch e := e.(type) {
	case observe.Judged:
		s.judged(x, e)
	case observe.Dequeued:
		taken := e.Exec.ReceivedAt.Add(e.Waited)
		end(&x.dispatch, taken)
		_, x.spawn = s.start(x.ctx, "exec.spawn", trace.SpanKindInternal, taken, attribute.String("process.executable.path", "bash"))
	case observe.Spawned:
		if x.spawn != nil {
			x.spawn.SetAttributes(attribute.Int("process.pid", e.PID))
		}
		end(&x.spawn, time.Now())
		x.runCtx, x.run = s.start(withSpanID(x.ctx, x.runID), "bash", trace.SpanKindClient, time.Now(),
			attribute.String("process.executable.name", "bash"), attribute.Int("process.pid", e.PID), attribute.Int("process.group_leader.pid", e.PID))
		x.runCtx = withoutSpanID(x.runCtx)
	case observe.FirstOutput:
		if x.run == nil {
			return
		}
		x.run.AddEvent("first_" + streamName(e.Stream))
		s.streams(x)
	case observe.OutputGrew:
		if x.run == nil {
			return
		}
		if e.First {
			x.run.AddEvent("first_" + streamName(e.Stream))
		}
		s.streams(x)
		x.milestone(e.Pieces, e.StdoutBytes, e.StderrBytes)
	case observe.AbortRequested:
		x.root.AddEvent("abort_requested", trace.WithAttributes(attribute.String("by", endedByName(e.By))))
	case observe.KillBegan:
		if x.run == nil {
			return
		}
		_, x.kill = s.start(x.runCtx, "exec.kill", trace.SpanKindInternal, time.Now(),
			attribute.String("sandbox.kill.reason", endedByName(e.By)), attribute.String("sandbox.kill.signal", "SIGKILL"))
	case observe.KillEnded:
		if x.kill == nil {
			return
		}
		c := e.Containment
		x.kill.SetAttributes(attribute.Int("containment.rounds", c.Rounds), attribute.Int("containment.reaped", c.Reaped), attribute.Int("containment.left", len(c.Left)))
		if len(c.Left) > 0 {
			x.kill.SetStatus(codes.Error, "not contained")
		}
		end(&x.kill, time.Now())
	case observe.Ended:
		s.ended(x, &e.Receipt)
	}
}

func (s *Spans) judged(x *execSpans, e observe.Judged) {
	if e.Collided || e.Verdict == observe.VerdictConflict {
		x.root.AddEvent("collision")
	}
	switch e.Verdict {
	case observe.VerdictRun:
		if x.dispatch == nil {
			_, x.dispatch = s.start(x.ctx, "exec.dispatch", trace.SpanKindInternal, e.Exec.ReceivedAt,
				attribute.Int("sandbox.queue.depth", e.Queued), attribute.Int("sandbox.queue.limit", int(s.queueLimit.Load())),
				attribute.Int("sandbox.pool.running", e.Running))
		}
	case observe.VerdictWait:
		x.root.AddEvent("waits_for_an_earlier_run")
	case observe.VerdictReplay:
		x.root.AddEvent("dedup_hit")
		link(x.root, e.Original)
		s.over(x, "dedup_hit", "", false)
	case observe.VerdictJoin:
		link(x.root, e.Original)
		s.over(x, "joined", "", false)
	default:
		x.root.AddEvent("refused")
		s.over(x, string(observe.OutcomeRefused), refusalName(e.Verdict, e.Reason), true)
	}
}

// over ends an exec that never ran.
func (s *Spans) over(x *execSpans, outcome, errorType string, failed bool) {
	x.root.SetAttributes(attribute.String("sandbox.exec.outcome", outcome))
	s.close(x, errorType, failed, time.Now())
}

// failed says that the worker, or whoever killed what it ran, is to blame: a
// search that finds nothing exits with 1, and an abort was wished for.
func (s *Spans) failed(r *observe.Receipt) bool {
	switch r.Outcome {
	case observe.OutcomeExit:
		return s.options.NonzeroBad && r.ExitCode != 0
	case observe.OutcomeAbort:
		return false
	}
	return true
}

func (s *Spans) slow(took time.Duration) bool { return s.options.Slow > 0 && took >= s.options.Slow }

// Kept says whether the trace of an exec that has ended is exported. More than
// 256 execs at once that were not sampled find no room to be kept, which is
// counted as dropped and not known here.
func (s *Spans) Kept(r observe.Receipt) bool {
	return r.Exec.Trace.Sampled || s.options.Slow > 0 && (s.failed(&r) || s.slow(r.EndedAt.Sub(r.Exec.ReceivedAt)))
}

// close ends all spans of an exec, the root last, and decides whether one that
// was not sampled is kept.
func (s *Spans) close(x *execSpans, kind string, failed bool, at time.Time) {
	setError(x.root, kind, failed)
	switch {
	case x.root.SpanContext().IsSampled():
		x.root.SetAttributes(attribute.String("sandbox.trace.kept_by", "ratio"))
	case failed:
		x.root.SetAttributes(attribute.String("sandbox.trace.kept_by", "failed"))
		s.keeper.keep(&x.kept)
	case s.slow(at.Sub(startOf(x.root))):
		x.root.SetAttributes(attribute.String("sandbox.trace.kept_by", "slow"))
		s.keeper.keep(&x.kept)
	}
	for _, span := range []*trace.Span{&x.dispatch, &x.spawn, &x.stream, &x.kill, &x.run} {
		end(span, at)
	}
	x.root.End(trace.WithTimestamp(at))
}

func end(span *trace.Span, at time.Time) {
	if *span != nil {
		(*span).End(trace.WithTimestamp(at))
		*span = nil
	}
}

func setError(span trace.Span, kind string, failed bool) {
	if failed {
		span.SetStatus(codes.Error, "")
		if kind != "" {
			span.SetAttributes(attribute.String("error.type", kind))
		}
	}
}
