package telemetry

import (
	"context"
	"net"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"execworker/daemon/observe"
)

// attempt is one to attach, under way.
type attempt struct {
	span trace.Span
	kept *kept
}

// dialing starts the span of one attempt to attach, a trace of its own.
func (s *Spans) dialing(ctx context.Context, x observe.Session) {
	host, port, _ := net.SplitHostPort(x.Target)
	number, _ := strconv.Atoi(port)
	of := new(kept)
	_, span := s.tracer.Start(withKept(ctx, of), "attach", trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(x.DialedAt),
		trace.WithAttributes(
			attribute.String("rpc.system", "grpc"), attribute.String("rpc.service", "sandbox.v1.SandboxWorker"), attribute.String("rpc.method", "Attach"),
			attribute.String("server.address", host), attribute.Int("server.port", number),
			attribute.Int64("sandbox.attach.epoch", int64(x.Number)), attribute.Int("sandbox.attach.attempt", x.Attempt),
			attribute.Int64("sandbox.attach.backoff_ms", x.Backoff.Milliseconds())))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts[x.Number] = attempt{span, of}
}

// hello ends the attempt, which execs are linked to from now on.
func (s *Spans) hello(x observe.Session) {
	if a := s.attempt(x.Number); a.span != nil {
		s.mu.Lock()
		s.attached = a.span.SpanContext()
		s.mu.Unlock()
		a.span.End(trace.WithTimestamp(x.HelloAt))
	}
}

// sessionEnded ends an attempt that failed.
func (s *Spans) sessionEnded(e observe.SessionEnded) {
	x := e.Session
	s.mu.Lock()
	if !x.HelloAt.IsZero() {
		s.attached = trace.SpanContext{}
	}
	s.mu.Unlock()
	if a := s.attempt(x.Number); a.span != nil {
		kind := x.Code
		if !slices.Contains(grpcCodes, kind) {
			kind = otherError
		}
		setError(a.span, kind, true)
		s.keeper.keep(a.kept)
		a.span.End(trace.WithTimestamp(x.EndedAt))
	}
}

// attempt takes an attempt that is under way; its span is nil if there is none.
func (s *Spans) attempt(number uint64) attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.attempts[number]
	delete(s.attempts, number)
	return a
}

// startOf is when a span began; now if it does not record.
func startOf(span trace.Span) time.Time {
	if s, ok := span.(sdktrace.ReadOnlySpan); ok {
		return s.StartTime()
	}
	return time.Now()
}

func withoutSpanID(ctx context.Context) context.Context {
	return context.WithValue(ctx, spanIDKey{}, nil)
}

// The words of spans come from fixed lists, like those of metrics: what is not
// on the list is other.

func streamName(s string) string { return listed(s, "stdout", "stderr") }

func outcomeName(o observe.Outcome) string {
	if slices.Contains(outcomes, o) {
		return string(o)
	}
	return other
}

func endedByName(by observe.EndedBy) string {
	if slices.Contains(enders, by) {
		return string(by)
	}
	return other
}

func signalName(s string) string {
	if signals[s] {
		return s
	}
	return other
}

func refusalName(v observe.Verdict, reason string) string {
	if name := refusal(v, reason); name != "" {
		return name
	}
	return other
}

func listed(s string, known ...string) string {
	if slices.Contains(known, s) {
		return s
	}
	return other
}
