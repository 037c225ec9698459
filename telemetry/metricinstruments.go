package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
)

// Upper bounds of the histograms' buckets.
var (
	secondsBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
	bytesBuckets   = []float64{256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20}
)

// buckets is the view that gives the histograms of a unit their bounds.
func buckets(unit string, bounds []float64) sdk.View {
	return sdk.NewView(
		sdk.Instrument{Kind: sdk.InstrumentKindHistogram, Unit: unit},
		sdk.Stream{Aggregation: sdk.AggregationExplicitBucketHistogram{
			Boundaries: bounds,
			NoMinMax:   true, // Prometheus does not show them
		}},
	)
}

// instruments are those that events are recorded with.
type instruments struct {
	duration, queue, spawn, firstByte, kill, session, request metric.Float64Histogram

	size metric.Int64Histogram

	refused, output, chunks, truncated, lookups, aborts, attempts metric.Int64Counter

	blocked metric.Float64Counter
	backoff metric.Float64Gauge
}

// make makes all instruments there are.
func (m *Metrics) make(meter metric.Meter) error {
	var errs []error
	seconds := func(name, what string) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what))
		errs = append(errs, err)
		return h
	}
	counter := func(name, unit, what string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return c
	}
	m.instruments = instruments{
		duration:  seconds("sandbox.exec.duration", "From an Exec frame to the end of its exec."),
		queue:     seconds("sandbox.exec.queue.duration", "From an Exec frame to its slot, or to its end without one."),
		spawn:     seconds("sandbox.exec.spawn.duration", "Time that spawning a command took."),
		firstByte: seconds("sandbox.exec.first_byte.duration", "From spawn to the first byte of output."),
		kill:      seconds("sandbox.exec.kill.duration", "From the decision to kill a tree to the proof that it is gone."),
		session:   seconds("sandbox.attach.session.duration", "From Hello to the end of a session."),
		request:   seconds("http.server.request.duration", "Time that requests of the admin API took."),

		refused:   counter("sandbox.exec.refused", "{exec}", "Execs that were refused."),
		output:    counter("sandbox.exec.output", "By", "Output read from commands that have ended."),
		chunks:    counter("sandbox.exec.chunks", "{chunk}", "Chunk frames of execs that have ended."),
		truncated: counter("sandbox.exec.truncated", "{exec}", "Execs with output past the cap of buffered mode."),
		lookups:   counter("sandbox.dedup.lookups", "{lookup}", "Execs looked up among those that have finished."),
		aborts:    counter("sandbox.abort.requests", "{request}", "Wishes to stop an exec."),
		attempts:  counter("sandbox.attach.attempts", "{attempt}", "Attempts to attach to the relay."),
	}
	var err error
	m.size, err = meter.Int64Histogram("sandbox.exec.output.size", metric.WithUnit("By"),
		metric.WithDescription("Output of one command, both streams together."))
	errs = append(errs, err)
	m.blocked, err = meter.Float64Counter("sandbox.exec.send.blocked", metric.WithUnit("s"),
		metric.WithDescription("Time that output of execs that have ended waited for the relay to read."))
	errs = append(errs, err)
	m.backoff, err = meter.Float64Gauge("sandbox.attach.backoff", metric.WithUnit("s"),
		metric.WithDescription("Length of the wait for the next attempt to attach; 0 when there is no such wait."))
	return errors.Join(append(errs, err, m.makeGauges(meter))...)
}

// startAtZero shows counters before their first event, for a rate needs a value
// before the one that matters: with all their labels, but of attempts that fail,
// which can have many.
func (m *Metrics) startAtZero() {
	ctx, w := context.Background(), m.words
	for c, all := range map[metric.Int64Counter][]labels{
		m.refused:   w.refused.all(),
		m.output:    {w.stdout, w.stderr},
		m.chunks:    {{}},
		m.truncated: {{}},
		m.lookups:   w.lookups.all(),
		m.aborts:    w.aborts.all(),
		m.attempts:  {w.attached, w.failed.of("Unavailable"), w.failed.of(otherError)},
	} {
		for _, a := range all {
			c.Add(ctx, 0, a.add...)
		}
	}
	m.blocked.Add(ctx, 0)
	m.backoff.Record(ctx, 0)
}
