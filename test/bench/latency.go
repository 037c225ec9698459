package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// trueRow is the price of one exec for one caller: its latency, and what it costs
// the worker itself. The worker's time is taken from one batch to the next, so
// that what it does after the terminal frame is counted.
func trueRow(ctx context.Context, b *bench) ([]result, error) {
	var (
		p50, floorP50, cpu, floorCPU []float64
		all, floorAll                []time.Duration
	)
	n := float64(b.sizes.trueBatch)
	for range b.sizes.trueRounds {
		before, err := b.worker.cpu()
		if err != nil {
			return nil, err
		}
		took, err := b.worker.runs(ctx, "true", b.sizes.trueBatch)
		if err != nil {
			return nil, err
		}
		d, err := b.floor.do(task{Command: "true", Times: b.sizes.trueBatch, Callers: 1})
		if err != nil {
			return nil, err
		}
		after, err := b.worker.cpu()
		if err != nil {
			return nil, err
		}
		p50, floorP50 = append(p50, median(in(time.Millisecond, took))), append(floorP50, median(in(time.Millisecond, d.Took)))
		cpu, floorCPU = append(cpu, millis(after-before)/n), append(floorCPU, millis(d.CPU)/n)
		all, floorAll = append(all, took...), append(floorAll, d.Took...)
	}
	p99 := compared("true p99", "ms",
		[]float64{quantile(in(time.Millisecond, all), 0.99)},
		[]float64{quantile(in(time.Millisecond, floorAll), 0.99)}, target{})
	p99.Note = fmt.Sprintf("of %d samples", len(all))
	return []result{
		compared("true p50", "ms", p50, floorP50, target{Most: 1.05}),
		p99,
		compared("true CPU of the worker", "ms", cpu, floorCPU, target{Most: 1.3}),
	}, nil
}

// runs has a command run so often, one after the other.
func (s *session) runs(ctx context.Context, command string, times int) ([]time.Duration, error) {
	took := make([]time.Duration, times)
	for i := range took {
		c, err := s.run(ctx, command)
		if err != nil {
			return nil, err
		}
		took[i] = c.took()
	}
	return took, nil
}

// rateRow is execs a second with as many callers as slots.
func rateRow(ctx context.Context, b *bench) ([]result, error) {
	var rates, floorRates []float64
	n := float64(b.sizes.rateBatch * slots)
	for range b.sizes.rateRounds {
		began := time.Now()
		if err := b.callers(ctx); err != nil {
			return nil, err
		}
		wall := time.Since(began)
		d, err := b.floor.do(task{Command: "true", Times: b.sizes.rateBatch, Callers: slots})
		if err != nil {
			return nil, err
		}
		rates, floorRates = append(rates, n/wall.Seconds()), append(floorRates, n/d.Wall.Seconds())
	}
	return []result{compared("true rate, 16 callers", "/s", rates, floorRates, target{Least: 0.97})}, nil
}

func (b *bench) callers(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make(chan error, slots)
	for range slots {
		wg.Go(func() {
			_, err := b.worker.runs(ctx, "true", b.sizes.rateBatch)
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// floodRow is the latency of true beside an exec that writes all it can. The floor
// is the worker itself, without that exec.
func floodRow(ctx context.Context, b *bench) ([]result, error) {
	var loud, quiet []float64
	bytes, flooded := 0, time.Duration(0)
	for range b.sizes.floodRounds {
		took, err := b.worker.runs(ctx, "true", b.sizes.floodBatch)
		if err != nil {
			return nil, err
		}
		quiet = append(quiet, median(in(time.Millisecond, took)))

		flood, err := b.worker.exec("yes")
		if err != nil {
			return nil, err
		}
		if err := flood.begin(ctx); err != nil {
			return nil, err
		}
		if took, err = b.worker.runs(ctx, "true", b.sizes.floodBatch); err != nil {
			return nil, err
		}
		loud = append(loud, median(in(time.Millisecond, took)))
		if _, err := flood.abort(); err != nil {
			return nil, err
		}
		if err := flood.wait(ctx, flood.done); err != nil {
			return nil, err
		}
		bytes, flooded = bytes+flood.bytes, flooded+flood.endedAt.Sub(flood.firstAt)
	}
	r := compared("true p50 beside a flood", "ms", loud, quiet, target{Most: 1.4})
	r.Note = fmt.Sprintf("the flood: %.2f GiB/s", float64(bytes)/(1<<30)/flooded.Seconds())
	return []result{r}, nil
}
