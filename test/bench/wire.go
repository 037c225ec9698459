package main

import (
	"context"
	"time"

	sandboxv1 "execworker/proto/sandbox/v1"
)

// wireRow is what is left of the latency when nothing is run: an exec that is
// answered from dedup. No floor and no target; it says how much of the row above
// is the wire.
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
