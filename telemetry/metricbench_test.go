package telemetry

import (
	"context"
	"testing"
	"time"

	"execworker/daemon/observe"
)

// aLife is the events of an ordinary exec, in their order.
func aLife(seq uint64) []observe.Event {
	now := time.Now()
	x := observe.Exec{ID: observe.SandboxID(seq), Seq: seq, Streaming: true, ReceivedAt: now}
	return []observe.Event{
		observe.Judged{Exec: x, Verdict: observe.VerdictRun},
		observe.Dequeued{Exec: x, Waited: time.Millisecond},
		observe.Spawned{Exec: x, PID: 7, Took: time.Millisecond},
		observe.FirstOutput{Exec: x, Stream: "stdout", After: time.Millisecond},
		observe.Ended{Receipt: observe.Receipt{
			Exec: x, Outcome: observe.OutcomeExit, EndedBy: observe.EndedBySelf, PID: 7, EndedAt: now.Add(time.Second),
			StdoutBytes: 812, Chunks: 1,
		}},
	}
}

func tell(o observe.Observer, events []observe.Event) {
	ctx := context.Background()
	for _, e := range events {
		o.Event(ctx, e)
	}
}

// An exec's path must not make garbage: it is as hot as the worker gets.
func TestAnOrdinaryExecAllocatesNothing(t *testing.T) {
	m, life := newMetrics(t), aLife(1)
	if n := testing.AllocsPerRun(100, func() { tell(m, life) }); n != 0 {
		t.Errorf("%.1f allocations an exec", n)
	}
}

// BenchmarkMetrics is one exec, which is five events.
func BenchmarkMetrics(b *testing.B) {
	m, life := newMetrics(b), aLife(1)
	b.ReportAllocs()
	for b.Loop() {
		tell(m, life)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(life)), "ns/event")
}

// BenchmarkMetricsAtOnce is the same on all processors.
func BenchmarkMetricsAtOnce(b *testing.B) {
	m := newMetrics(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		life := aLife(uint64(time.Now().UnixNano()))
		for pb.Next() {
			tell(m, life)
		}
	})
}

// BenchmarkScrape is one GET /metrics of a worker with full lists.
func BenchmarkScrape(b *testing.B) {
	m := newMetrics(b)
	tell(m, aLife(1))
	m.Ask(&aWorker{
		inflight: make([]observe.Inflight, 68),
		dedup:    observe.Dedup{Entries: make([]observe.Completed, 256)},
		sessions: make([]observe.Session, 65),
	})
	b.ReportAllocs()
	for b.Loop() {
		scrape(b, m, "")
	}
}
