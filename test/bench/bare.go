package main

import (
	"context"
	"errors"
	"time"

	sandboxv1 "execworker/proto/sandbox/v1"
)

// bareRow is one exec for one caller again, over a bare worker: the same frames
// and plain os/exec, and nothing else. It has no target. Where bash starts in a
// millisecond the wire alone misses that of the first row; this one says what is
// ours of it.
func bareRow(ctx context.Context, b *bench) (_ []result, err error) {
	bare, err := b.startSender(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bare.stop()) }()
	sides := [2]struct {
		s        *session
		pids     []int
		p50, cpu []float64
	}{{s: b.worker.session, pids: b.worker.pids}, {s: bare.session, pids: []int{bare.cmd.Process.Pid}}}
	for range b.sizes.trueRounds {
		var before [2]time.Duration
		for i := range sides {
			if before[i], err = cpuOf(sides[i].pids...); err != nil {
				return nil, err
			}
		}
		for i := range sides {
			took, err := sides[i].s.runs(ctx, "true", b.sizes.trueBatch)
			if err != nil {
				return nil, err
			}
			sides[i].p50 = append(sides[i].p50, median(in(time.Millisecond, took)))
		}
		for i := range sides {
			after, err := cpuOf(sides[i].pids...)
			if err != nil {
				return nil, err
			}
			sides[i].cpu = append(sides[i].cpu, millis(after-before[i])/float64(b.sizes.trueBatch))
		}
	}
	return []result{
		compared("true p50 over a bare worker", "ms", sides[0].p50, sides[1].p50, target{}),
		compared("true CPU over a bare worker", "ms", sides[0].cpu, sides[1].cpu, target{}),
	}, nil
}

// wireRow is what is left of the latency when nothing is run: an exec that is
// answered from dedup. It has neither floor nor target.
func wireRow(ctx context.Context, b *bench) ([]result, error) {
	first, err := b.worker.run(ctx, "true")
	if err != nil {
		return nil, err
	}
	var p50 []float64
	for range b.sizes.trueRounds {
		took := make([]time.Duration, b.sizes.trueBatch)
		for i := range took {
			c, err := b.worker.send(&sandboxv1.Exec{ReqId: first.reqID, Command: "true", Streaming: true})
			if err != nil {
				return nil, err
			}
			if err := c.succeed(ctx); err != nil {
				return nil, err
			}
			took[i] = c.took()
			time.Sleep(time.Millisecond)
		}
		p50 = append(p50, median(in(time.Millisecond, took)))
	}
	r := absolute("replay p50", "ms", p50, target{})
	r.Note = "nothing runs: the wire's share"
	return []result{r}, nil
}
