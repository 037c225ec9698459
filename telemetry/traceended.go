package telemetry

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"execworker/daemon/observe"
)

// milestonesMost is how many events a stream has at most: its pieces double
// between two of them, so that is more than any command will ever say.
const milestonesMost = 24

// streams starts the span of an exec's output, if it has not begun.
func (s *Spans) streams(x *execSpans) {
	if x.stream == nil {
		_, x.stream = s.start(x.runCtx, "exec.stream", trace.SpanKindInternal, time.Now())
	}
}

// milestone notes how much output there is by now. Not each piece is an event: a
// span keeps 128 and pays for every one that it drops.
func (x *execSpans) milestone(pieces, stdout, stderr int64) {
	if x.milestones++; x.milestones > milestonesMost {
		return
	}
	x.stream.AddEvent("output", trace.WithAttributes(
		attribute.Int64("sandbox.output.pieces", pieces),
		attribute.Int64("sandbox.stdout.bytes", stdout), attribute.Int64("sandbox.stderr.bytes", stderr)))
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
			attribute.Int64("sandbox.stdout.chunks", r.StdoutChunks), attribute.Int64("sandbox.stderr.chunks", r.StderrChunks),
			attribute.Int64("sandbox.chunk.max", r.LargestPiece),
			attribute.Int64("sandbox.send.blocked_ms", r.Phases.SendBlocked.Milliseconds()), attribute.Int64("sandbox.send.max_ms", r.LongestBlock.Milliseconds()),
			attribute.Int64("sandbox.drain_ms", r.Phases.Drain.Milliseconds()), attribute.Bool("sandbox.wait_delay_hit", r.PipeHeld))
		if !r.LastOutputAt.IsZero() {
			x.run.AddEvent("last_output", trace.WithTimestamp(r.LastOutputAt))
		}
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
		if r.Phases.Run > 0 {
			end(&x.run, r.StartedAt.Add(r.Phases.Run))
		}
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

// link leads to the run that answers this exec, which it has none of its own.
func link(span trace.Span, to observe.Trace) {
	id, err := trace.TraceIDFromHex(to.ID)
	if err != nil {
		return // that run has no trace
	}
	spanID, err := trace.SpanIDFromHex(to.SpanID)
	if err != nil {
		return
	}
	c := trace.SpanContextConfig{TraceID: id, SpanID: spanID, TraceFlags: trace.TraceFlags(0).WithSampled(to.Sampled)}
	span.AddLink(trace.Link{SpanContext: trace.NewSpanContext(c)})
}
