package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/contrib/zpages"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"execworker/daemon/observe"
)

// TraceOptions are what Spans need.
type TraceOptions struct {
	SandboxID string // part of each trace id
	RandomIDs bool   // trace ids are not made of sandbox and req_id
	Ratio     float64
	// Slow is from how long on an exec that was not sampled is exported all the
	// same, as one that failed is; 0 exports none of these.
	Slow        time.Duration
	Tracez      bool // keep some spans to be looked at; see Spans.Tracez
	NoChildEnv  bool // commands get no TRACEPARENT
	NonzeroBad  bool // a nonzero exit code is an error
	CommandName func(string) string

	Exporter sdktrace.SpanExporter // nil: spans are made for nobody, so none are
	Provider []sdktrace.TracerProviderOption
}

// Spans is the observer that makes a trace of each exec and of each attempt to
// attach. See tracespans.go for the spans, and tracekeep.go for what is exported.
//
// Command text, output, environment and tokens are never on a span.
type Spans struct {
	options  TraceOptions
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	zpages   *zpages.SpanProcessor // nil unless asked for
	keeper   *keeper

	queueLimit atomic.Int64

	mu       sync.Mutex
	attempts map[uint64]attempt // by session, until it is attached or has failed
	attached trace.SpanContext  // of the attempt that was
}

var (
	_ observe.Observer = (*Spans)(nil)
	_ observe.Tracer   = (*Spans)(nil)
)

// NewSpans makes an observer. Close it after the last exec has ended.
func NewSpans(o TraceOptions) *Spans {
	s := &Spans{options: o, attempts: make(map[uint64]attempt)}
	s.keeper = newKeeper(sdktrace.NewBatchSpanProcessor(o.Exporter))
	if o.Tracez {
		s.zpages = zpages.NewSpanProcessor()
		o.Provider = append(o.Provider, sdktrace.WithSpanProcessor(s.zpages))
	}
	s.provider = sdktrace.NewTracerProvider(append([]sdktrace.TracerProviderOption{
		sdktrace.WithSampler(sampler{head: sdktrace.TraceIDRatioBased(o.Ratio), keep: o.Slow > 0}),
		sdktrace.WithIDGenerator(ids{}),
		sdktrace.WithSpanProcessor(s.keeper),
	}, o.Provider...)...)
	s.tracer = s.provider.Tracer("execworker/exec")
	return s
}

// Tracez lists spans that run now and some that have ended, for eyes; nil unless
// that was asked for.
func (s *Spans) Tracez() http.Handler {
	if s.zpages == nil {
		return nil
	}
	return zpages.NewTracezHandler(s.zpages)
}

// Ask has spans say what w says of the worker's bounds. Until then they say 0.
func (s *Spans) Ask(w Worker) { s.queueLimit.Store(int64(w.Status().QueueCap)) }

// Close exports what there is, until ctx ends.
func (s *Spans) Close(ctx context.Context) error {
	if err := s.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("close traces: %w", err)
	}
	return nil
}

// Trace says where the exec of ctx is to be found.
func (s *Spans) Trace(ctx context.Context) observe.Trace {
	x := execOf(ctx)
	if x == nil {
		return observe.Trace{}
	}
	c := x.root.SpanContext()
	return observe.Trace{ID: c.TraceID().String(), SpanID: c.SpanID().String(), Sampled: c.IsSampled()}
}

// ChildEnv names the run span as the parent of what the command traces (W3C
// Trace Context). The flag is the head's decision: what may be kept later must
// not be promised now.
func (s *Spans) ChildEnv(ctx context.Context) []string {
	x := execOf(ctx)
	if x == nil || s.options.NoChildEnv {
		return nil
	}
	c := x.root.SpanContext()
	flag := "00"
	if c.IsSampled() {
		flag = "01"
	}
	return []string{"TRACEPARENT=00-" + c.TraceID().String() + "-" + x.runID.String() + "-" + flag, "TRACESTATE"}
}

// Begin starts the root span.
func (s *Spans) Begin(ctx context.Context, e observe.Exec) context.Context {
	x := &execSpans{runID: randomSpanID()}
	start := []trace.SpanStartOption{
		trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(e.ReceivedAt),
		trace.WithAttributes(s.execAttributes(e)...),
	}
	s.mu.Lock()
	if s.attached.IsValid() {
		start = append(start, trace.WithLinks(trace.Link{SpanContext: s.attached}))
	}
	s.mu.Unlock()
	rootCtx := ctx
	if !s.options.RandomIDs {
		rootCtx = withTraceID(ctx, traceID(s.options.SandboxID, e.ID))
	}
	x.ctx, x.root = s.tracer.Start(withKept(rootCtx, &x.kept), "exec", start...)
	return context.WithValue(trace.ContextWithSpan(ctx, rootSpan{x.root, &x.kept}), execKey{}, x)
}

// Event goes on with the spans of the exec of ctx, or of a session.
func (s *Spans) Event(ctx context.Context, e observe.Event) {
	switch e := e.(type) {
	case observe.Dialing:
		s.dialing(ctx, e.Session)
	case observe.Attached:
		s.hello(e.Session)
	case observe.SessionEnded:
		s.sessionEnded(e)
	default:
		if x := execOf(ctx); x != nil {
			x.mu.Lock()
			defer x.mu.Unlock()
			s.step(x, e)
		}
	}
}

type execKey struct{}

func execOf(ctx context.Context) *execSpans {
	x, _ := ctx.Value(execKey{}).(*execSpans)
	return x
}

func (s *Spans) execAttributes(e observe.Exec) []attribute.KeyValue {
	name := "other"
	if s.options.CommandName != nil {
		name = s.options.CommandName(e.Command)
	}
	return []attribute.KeyValue{
		attribute.String("sandbox.exec.req_id", e.ID.ID),
		attribute.Bool("sandbox.exec.streaming", e.Streaming),
		attribute.Int64("sandbox.exec.timeout_s", int64(e.Timeout/time.Second)),
		attribute.String("sandbox.command.sha256", e.CommandHash[:min(len(e.CommandHash), 12)]),
		attribute.String("sandbox.command.name", name),
		attribute.Int("sandbox.command.size", e.CommandBytes),
		attribute.Int("sandbox.stdin.size", e.StdinBytes),
		attribute.Int64("sandbox.attach.epoch", int64(e.Session)),
	}
}
