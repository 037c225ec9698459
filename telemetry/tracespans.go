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
//	      └─ bash ─┬─ exec.stream   first output to the last of it
//	               └─ exec.kill     decision to proof
//
// A span that has not begun is nil.
type execSpans struct {
	mu                                 sync.Mutex
	ctx                                context.Context // of the root
	runCtx                             context.Context
	runID                              trace.SpanID // made before the run, for TRACEPARENT
	root, dispatch, spawn, run, stream trace.Span
	kill                               trace.Span
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
		end(&x.dispatch, time.Now())
		_, x.spawn = s.start(x.ctx, "exec.spawn", trace.SpanKindInternal, time.Now(), attribute.String("process.executable.path", "bash"))
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
		_, x.stream = s.start(x.runCtx, "exec.stream", trace.SpanKindInternal, time.Now())
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
	x.root.SetAttributes(attribute.Int("sandbox.queue.depth", e.Queued), attribute.Int("sandbox.pool.running", e.Running))
	if e.Collided {
		x.root.AddEvent("collision")
	}
	switch e.Verdict {
	case observe.VerdictRun:
		if x.dispatch == nil {
			_, x.dispatch = s.start(x.ctx, "exec.dispatch", trace.SpanKindInternal, e.Exec.ReceivedAt,
				attribute.Int("sandbox.queue.depth", e.Queued), attribute.Int("sandbox.pool.running", e.Running))
		}
	case observe.VerdictWait:
		x.root.AddEvent("waits_for_an_earlier_run")
	case observe.VerdictReplay:
		s.over(x, "dedup_hit", "", false)
	case observe.VerdictJoin:
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

func (s *Spans) ended(x *execSpans, r *observe.Receipt) {
	failed := s.failed(r)
	kind := errorType(r)
	if failed && kind == "" {
		kind = outcomeName(r.Outcome)
	}
	if x.spawn != nil && r.PID == 0 {
		x.spawn.SetStatus(codes.Error, "")
		x.spawn.SetAttributes(attribute.String("error.type", kind))
	}
	if x.stream != nil {
		x.stream.SetAttributes(
			attribute.Int64("sandbox.stdout.bytes", r.StdoutBytes), attribute.Int64("sandbox.stderr.bytes", r.StderrBytes),
			attribute.Int64("sandbox.stream.chunks", r.Chunks), attribute.Int64("sandbox.send.blocked_ms", r.Phases.SendBlocked.Milliseconds()),
			attribute.Int64("sandbox.drain_ms", r.Phases.Drain.Milliseconds()), attribute.Bool("sandbox.wait_delay_hit", r.PipeHeld))
		if r.Outcome == observe.OutcomeLost {
			x.stream.SetStatus(codes.Error, "")
		}
	}
	if x.run != nil {
		x.run.SetAttributes(
			attribute.Int64("process.cpu.user_ms", r.UserCPU.Milliseconds()), attribute.Int64("process.cpu.system_ms", r.SystemCPU.Milliseconds()),
			attribute.Int64("process.max_rss", r.MaxRSSBytes))
		if r.Signal != "" {
			x.run.SetAttributes(attribute.String("sandbox.signal", signalName(r.Signal)))
		} else if r.ExitCode >= 0 {
			x.run.SetAttributes(attribute.Int("process.exit.code", r.ExitCode))
		}
		setError(x.run, kind, failed)
	}
	x.root.SetAttributes(
		attribute.String("sandbox.exec.outcome", outcomeName(r.Outcome)), attribute.String("sandbox.exec.ended_by", endedByName(r.EndedBy)),
		attribute.Int64("sandbox.stdout.size", r.StdoutBytes), attribute.Int64("sandbox.stderr.size", r.StderrBytes),
		attribute.Bool("sandbox.output.truncated", r.StdoutCut+r.StderrCut > 0))
	if r.PID != 0 && r.Signal == "" && r.ExitCode >= 0 {
		x.root.SetAttributes(attribute.Int("process.exit.code", r.ExitCode))
	}
	s.close(x, kind, failed, r.EndedAt)
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

// Kept says whether the trace of an exec that has ended is exported, whole or,
// where the buffers were full, in part.
func (s *Spans) Kept(r observe.Receipt) bool {
	return r.Exec.Trace.Sampled || s.options.Slow > 0 && (s.failed(&r) || s.slow(r.EndedAt.Sub(r.Exec.ReceivedAt)))
}

// close ends all spans of an exec, the root last, and decides whether one that
// was not sampled is kept.
func (s *Spans) close(x *execSpans, kind string, failed bool, at time.Time) {
	setError(x.root, kind, failed)
	slow := s.slow(at.Sub(startOf(x.root)))
	switch {
	case x.root.SpanContext().IsSampled():
		x.root.SetAttributes(attribute.String("sandbox.trace.kept_by", "ratio"))
	case failed:
		x.root.SetAttributes(attribute.String("sandbox.trace.kept_by", "failed"))
	case slow:
		x.root.SetAttributes(attribute.String("sandbox.trace.kept_by", "slow"))
	}
	x.kept.mu.Lock()
	x.kept.keep = failed || slow
	x.kept.mu.Unlock()
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
