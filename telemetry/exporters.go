package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// ExporterState is how the export of one signal goes.
type ExporterState struct {
	Exporter string // none, otlp or console
	Endpoint string // without user and password; empty: the SDK's default
	LastOK   time.Time
	LastErr  string // of the last export, if it failed; untrusted
	Dropped  int64  // spans that were lost because an export failed or there was no room
}

// exporterState notes how exports go.
type exporterState struct {
	mu    sync.Mutex
	state ExporterState
}

func (s *exporterState) note(err error, lost int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.state.LastOK, s.state.LastErr = time.Now(), ""
		return nil
	}
	s.state.LastErr = err.Error()
	s.state.Dropped += int64(lost)
	return err
}

func (s *exporterState) snapshot() ExporterState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// countedSpans and countedMetrics are exporters that are watched.
type countedSpans struct {
	sdktrace.SpanExporter
	state *exporterState
}

func (c countedSpans) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	return c.state.note(c.SpanExporter.ExportSpans(ctx, spans), len(spans))
}

type countedMetrics struct {
	sdkmetric.Exporter
	state *exporterState
}

func (c countedMetrics) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	return c.state.note(c.Exporter.Export(ctx, m), 0)
}

// Exports is everything that leaves the worker for a collector.
type Exports struct {
	Spans   *Spans // nil when there is no exporter of traces
	Metrics *Metrics

	traces, metrics exporterState
}

// NewExports makes traces and metrics. What goes wrong with a collector later is
// logged to log, at most once a minute, and costs the worker nothing else. Close
// it after the last exec and the last scrape.
func NewExports(e ExportOptions, t TraceOptions, version, instance string, log *slog.Logger) (*Exports, error) {
	ctx := context.Background()
	x := new(Exports)
	x.traces.state = ExporterState{Exporter: e.Traces, Endpoint: e.TracesEndpoint}
	x.metrics.state = ExporterState{Exporter: e.Metrics, Endpoint: e.MetricsEndpoint}
	otel.SetErrorHandler(&complaints{log: log})
	who, err := NewResource(version, instance, t.SandboxID)
	if err != nil {
		return nil, err
	}
	reader, err := e.metricReader(ctx, &x.metrics)
	if err != nil {
		return nil, fmt.Errorf("export metrics: %w", err)
	}
	if x.Metrics, err = makeMetrics(who, reader); err != nil {
		return nil, err
	}
	exporter, err := e.spanExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	if exporter != nil {
		t.Exporter, t.Ratio = countedSpans{exporter, &x.traces}, e.Ratio
		t.Provider = []sdktrace.TracerProviderOption{sdktrace.WithResource(who), sdktrace.WithRawSpanLimits(spanLimits())}
		x.Spans = NewSpans(t)
	}
	return x, nil
}

// States says how the exports go.
func (x *Exports) States() (traces, metrics ExporterState) {
	traces, metrics = x.traces.snapshot(), x.metrics.snapshot()
	if x.Spans != nil {
		traces.Dropped += x.Spans.keeper.dropped.Load()
	}
	return traces, metrics
}

// Close flushes both, side by side, for at most 3 s.
func (x *Exports) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), exportTimeout)
	defer cancel()
	var wg sync.WaitGroup
	var errs [2]error
	wg.Go(func() { errs[0] = x.Metrics.Close(ctx) })
	if x.Spans != nil {
		wg.Go(func() { errs[1] = x.Spans.Close(ctx) })
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

// complaints logs what the SDK has to say. A collector that is away has it say
// the same every five seconds.
type complaints struct {
	log *slog.Logger

	mu    sync.Mutex
	last  time.Time
	quiet int
}

const complainEvery = time.Minute

// Handle is called by the SDK.
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.last) < complainEvery {
		c.quiet++
		return
	}
	c.log.Warn("telemetry not exported", "error", err.Error(), "unlogged", c.quiet)
	c.last, c.quiet = time.Now(), 0
}
