package telemetry

import (
	"context"
	"sync"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// sampler decides at the root by the trace id, and below it as the root did.
// What is not sampled is recorded all the same if it may be kept later: a span
// that does not record cannot be revived.
type sampler struct {
	head sdktrace.Sampler
	keep bool
}

func (s sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	parent := trace.SpanContextFromContext(p.ParentContext)
	r := sdktrace.SamplingResult{Decision: sdktrace.Drop, Tracestate: parent.TraceState()}
	switch {
	case !parent.IsValid():
		r = s.head.ShouldSample(p)
	case parent.IsSampled():
		r.Decision = sdktrace.RecordAndSample
	}
	if r.Decision == sdktrace.Drop && s.keep {
		r.Decision = sdktrace.RecordOnly
	}
	return r
}

func (s sampler) Description() string { return "execworker:" + s.head.Description() }

const (
	keptTraces = 256 // that are buffered at a time
	keptSpans  = 32  // of each
)

// kept is the buffer of one exec that was not sampled, until its root ends. It is
// by exec and not by trace id, which two runs of one req_id share.
type kept struct {
	keep atomic.Bool // it is to be exported

	mu    sync.Mutex
	in    bool // it has one of the places; guarded by the keeper's lock
	spans []sdktrace.ReadOnlySpan
}

type keptKey struct{}

func withKept(ctx context.Context, k *kept) context.Context {
	return context.WithValue(ctx, keptKey{}, k)
}

// keeper passes sampled spans on, and of the others those of execs that turned
// out slow or failed.
type keeper struct {
	next sdktrace.SpanProcessor

	mu      sync.Mutex
	open    map[trace.SpanID]*kept // spans that were not sampled and have not ended
	places  int
	dropped atomic.Int64 // spans for which there was no room
}

var _ sdktrace.SpanProcessor = (*keeper)(nil)

func newKeeper(next sdktrace.SpanProcessor) *keeper {
	return &keeper{next: next, open: make(map[trace.SpanID]*kept)}
}

// keep has an exec exported that was not sampled, if it has a place.
func (k *keeper) keep(of *kept) {
	k.mu.Lock()
	defer k.mu.Unlock()
	of.keep.Store(of.in)
}

func (k *keeper) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	if s.SpanContext().IsSampled() {
		k.next.OnStart(ctx, s)
		return
	}
	of, ok := ctx.Value(keptKey{}).(*kept)
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !s.Parent().IsValid() && k.places < keptTraces {
		k.places++
		of.in = true
	}
	if !of.in {
		k.dropped.Add(1)
		return
	}
	k.open[s.SpanContext().SpanID()] = of
}

func (k *keeper) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.SpanContext().IsSampled() {
		k.next.OnEnd(s)
		return
	}
	id := s.SpanContext().SpanID()
	k.mu.Lock()
	of := k.open[id]
	delete(k.open, id)
	root := of != nil && !s.Parent().IsValid()
	if root {
		k.places--
	}
	k.mu.Unlock()
	if of == nil {
		return
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	if len(of.spans) < keptSpans || root {
		of.spans = append(of.spans, s)
	} else {
		k.dropped.Add(1)
	}
	if !root {
		return
	}
	if of.keep.Load() {
		for _, each := range of.spans {
			k.next.OnEnd(asSampled{each})
		}
	}
	of.spans = nil
}

func (k *keeper) Shutdown(ctx context.Context) error   { return k.next.Shutdown(ctx) }
func (k *keeper) ForceFlush(ctx context.Context) error { return k.next.ForceFlush(ctx) }

// rootSpan is the span that an exec's context shows to other observers. It says
// that it is sampled as soon as that is decided, so that a metric can name a
// trace that is kept (an exemplar).
type rootSpan struct {
	trace.Span
	kept *kept
}

func (r rootSpan) SpanContext() trace.SpanContext {
	c := r.Span.SpanContext()
	if r.kept.keep.Load() {
		c = c.WithTraceFlags(c.TraceFlags().WithSampled(true))
	}
	return c
}

// asSampled is a span that is exported although its head was not sampled: the
// batch processor asks for the flag and nothing else.
type asSampled struct{ sdktrace.ReadOnlySpan }

func (s asSampled) SpanContext() trace.SpanContext {
	c := s.ReadOnlySpan.SpanContext()
	return c.WithTraceFlags(c.TraceFlags().WithSampled(true))
}
