package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"

	"execworker/daemon/observe"
)

// gauges are the instruments that ask the worker.
type gauges struct {
	// active and up can be added up over workers, which is what the kind says.
	// And an exporter puts _ratio behind the name of a gauge with the unit 1.
	active, up metric.Int64ObservableUpDownCounter

	capacity, limit, entries metric.Int64ObservableGauge
	evictions, orphans       metric.Int64ObservableCounter
	heartbeat                metric.Float64ObservableGauge
}

func (m *Metrics) makeGauges(meter metric.Meter) error {
	var g gauges
	var errs [9]error
	g.active, errs[0] = meter.Int64ObservableUpDownCounter("sandbox.exec.active", metric.WithUnit("{exec}"),
		metric.WithDescription("Execs in flight. Those that are neither waiting nor queued have a slot."))
	g.up, errs[1] = meter.Int64ObservableUpDownCounter("sandbox.attach.up", metric.WithUnit("1"),
		metric.WithDescription("1 while the worker is attached to the relay, else 0."))
	g.capacity, errs[2] = meter.Int64ObservableGauge("sandbox.exec.capacity", metric.WithUnit("{exec}"),
		metric.WithDescription("Execs that can run at once."))
	g.limit, errs[3] = meter.Int64ObservableGauge("sandbox.exec.queue.limit", metric.WithUnit("{exec}"),
		metric.WithDescription("Execs that can be queued."))
	g.entries, errs[4] = meter.Int64ObservableGauge("sandbox.dedup.entries", metric.WithUnit("{entry}"),
		metric.WithDescription("Finished execs that a redelivery would be answered from."))
	g.evictions, errs[5] = meter.Int64ObservableCounter("sandbox.dedup.evictions", metric.WithUnit("{entry}"),
		metric.WithDescription("Finished execs that were forgotten for newer ones."))
	g.orphans, errs[6] = meter.Int64ObservableCounter("sandbox.orphans.reaped", metric.WithUnit("{process}"),
		metric.WithDescription("Processes that came to the worker when their parent died, and were reaped."))
	g.heartbeat, errs[7] = meter.Float64ObservableGauge("sandbox.heartbeat.age", metric.WithUnit("s"),
		metric.WithDescription("Time since the last heartbeat to the relay, or since Hello if there was none."))
	_, errs[8] = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		if w := m.worker.Load(); w != nil {
			m.look(*w, g, o)
		}
		return nil
	}, g.active, g.up, g.capacity, g.limit, g.entries, g.evictions, g.orphans, g.heartbeat)
	return errors.Join(errs[:]...)
}

// look asks w once for all gauges.
func (m *Metrics) look(w Worker, g gauges, o metric.Observer) {
	inState := make(map[observe.State]int64, len(states))
	for _, x := range w.Inflight() {
		inState[x.State]++
	}
	for _, s := range states {
		o.ObserveInt64(g.active, inState[s], m.words.states.of(s).observe...)
	}

	status, dedup := w.Status(), w.Dedup()
	var up int64
	if status.Attached {
		up = 1
	}
	o.ObserveInt64(g.up, up)
	o.ObserveInt64(g.capacity, int64(status.CapacityMax))
	o.ObserveInt64(g.limit, int64(status.QueueCap))
	o.ObserveInt64(g.orphans, status.OrphansReaped)
	o.ObserveInt64(g.entries, int64(len(dedup.Entries)))
	o.ObserveInt64(g.evictions, int64(dedup.Evictions))

	if all := w.Sessions(); len(all) > 0 && all[0].EndedAt.IsZero() && !all[0].HelloAt.IsZero() {
		last := all[0].HeartbeatAt
		if last.IsZero() {
			last = all[0].HelloAt
		}
		o.ObserveFloat64(g.heartbeat, time.Since(last).Seconds())
	}
}
