package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/runtime"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"execworker/daemon/observe"
)

// Metrics counts what is reported and shows it to Prometheus. Counters and
// histograms are made of events; what is so right now is asked of the [Worker]
// at each scrape. These are all, as Prometheus names them, with type and labels:
//
//	sandbox_exec_duration_seconds            histogram  outcome error_type streaming
//	sandbox_exec_queue_duration_seconds      histogram  outcome
//	sandbox_exec_spawn_duration_seconds      histogram  error_type
//	sandbox_exec_first_byte_duration_seconds histogram
//	sandbox_exec_kill_duration_seconds       histogram  reason
//	sandbox_exec_active                      gauge      state
//	sandbox_exec_capacity                    gauge
//	sandbox_exec_queue_limit                 gauge
//	sandbox_exec_refused_total               counter    reason
//	sandbox_exec_output_bytes_total          counter    stream
//	sandbox_exec_output_size_bytes           histogram
//	sandbox_exec_chunks_total                counter
//	sandbox_exec_send_blocked_seconds_total  counter
//	sandbox_exec_truncated_total             counter
//	sandbox_dedup_lookups_total              counter    result
//	sandbox_dedup_entries                    gauge
//	sandbox_dedup_evictions_total            counter
//	sandbox_abort_requests_total             counter    source result
//	sandbox_attach_up                        gauge
//	sandbox_attach_attempts_total            counter    result error_type
//	sandbox_attach_session_duration_seconds  histogram  end_reason
//	sandbox_attach_backoff_seconds           gauge
//	sandbox_heartbeat_age_seconds            gauge
//	sandbox_orphans_reaped_total             counter
//	http_server_request_duration_seconds     histogram  http_route http_request_method http_response_status_code
//
// Beside them stand target_info and, named go_*, what the Go runtime says of
// itself. In OpenTelemetry a name has dots and neither the unit nor _total at
// its end: sandbox.exec.output, in By. What the values of labels mean is said
// where they are made, in metricwords.go.
//
// Output, chunks and what blocked are added when an exec ends, not while it
// runs, so that a counter never goes back. The duration is from the frame to the
// end of an exec that was admitted: one that is refused at once, joins, or is
// answered from dedup has none. A histogram is there from its first value on,
// and sandbox_heartbeat_age_seconds while the worker is attached.
//
// The zero Metrics cannot be used: make one with NewMetrics.
type Metrics struct {
	provider *sdk.MeterProvider
	handler  http.Handler
	worker   atomic.Pointer[Worker]

	instruments
	words words

	mu    sync.Mutex
	begun map[uint64]observe.EndedBy // by Seq: has a slot; and who has it killed, if that has begun
}

var _ observe.Observer = (*Metrics)(nil)

// Worker is what the gauges ask at each scrape. All methods are quick.
type Worker interface {
	Status() observe.Status
	Inflight() []observe.Inflight
	Dedup() observe.Dedup
	Sessions() []observe.Session // newest first; the first may be the live one
}

// NewMetrics makes metrics with a registry of their own, so that there can be
// any number of them. version is the worker's, for target_info. Close them
// after the last scrape.
func NewMetrics(version string) (*Metrics, error) {
	return makeMetrics(resource.NewSchemaless(
		attribute.String("service.name", "execworker"),
		attribute.String("service.version", version),
	), nil)
}

// makeMetrics also hands what there is to another reader, if there is one.
func makeMetrics(who *resource.Resource, also sdk.Reader) (*Metrics, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(
		exporter.WithRegisterer(registry),
		exporter.WithoutScopeInfo(),
	)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	options := []sdk.Option{
		sdk.WithReader(reader), sdk.WithResource(who), sdk.WithView(buckets("s", secondsBuckets), buckets("By", bytesBuckets)),
	}
	if also != nil {
		options = append(options, sdk.WithReader(also))
	}
	m := &Metrics{
		provider: sdk.NewMeterProvider(options...),
		handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{
			EnableOpenMetrics: true, // exemplars are in nothing else
			CoalesceGather:    true, // many scrapes at once are one look at the worker
		}),
		words: newWords(),
		begun: make(map[uint64]observe.EndedBy),
	}
	if err := m.make(m.provider.Meter("execworker")); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if err := runtime.Start(runtime.WithMeterProvider(m.provider)); err != nil {
		return nil, fmt.Errorf("metrics of the Go runtime: %w", err)
	}
	m.startAtZero()
	return m, nil
}

// Ask has the gauges ask w from now on. Until then they are not there: the
// worker is made after its observers.
func (m *Metrics) Ask(w Worker) { m.worker.Store(&w) }

// Handler answers GET /metrics in the text format of Prometheus, or in
// OpenMetrics if Accept prefers it. It needs no closing. After Close the answer
// is empty.
func (m *Metrics) Handler() http.Handler { return m.handler }

// Request counts a request that the admin API has answered. route is the pattern
// that matched, never the path; empty if none did. status is of HTTP.
func (m *Metrics) Request(ctx context.Context, route, method string, status int, took time.Duration) {
	if !methods[method] {
		method = otherError
	}
	m.request.Record(ctx, took.Seconds(), metric.WithAttributes(
		attribute.String("http.route", route),
		attribute.String("http.request.method", method),
		attribute.Int("http.response.status_code", status),
	))
}

// Close stops all metrics. Events that come later are harmless and go nowhere.
func (m *Metrics) Close(ctx context.Context) error {
	if err := m.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("close metrics: %w", err)
	}
	return nil
}
