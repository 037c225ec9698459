package main

import (
	"context"
	"fmt"
	"time"
)

// abortRow is the time from an Abort frame to the terminal frame.
func abortRow(ctx context.Context, b *bench) ([]result, error) {
	const command = "echo up; exec sleep 300"
	var took, floor []float64
	for range b.sizes.abortRounds {
		batch := make([]time.Duration, b.sizes.abortBatch)
		for i := range batch {
			var err error
			if batch[i], err = b.abortOnce(ctx, command, ""); err != nil {
				return nil, err
			}
		}
		d, err := b.floor.do(task{Kill: true, Command: command, Times: b.sizes.abortBatch, Callers: 1})
		if err != nil {
			return nil, err
		}
		took, floor = append(took, median(in(time.Millisecond, batch))), append(floor, median(in(time.Millisecond, d.Took)))
	}
	r := compared("abort of a sleep, p50", "ms", took, floor, target{Most: 1.6})
	r.Note = "floor: SIGKILL to wait"
	return []result{r}, nil
}

// setsidRow is the same with a child that has left the session and holds the pipe.
// Nothing of it may be alive when the terminal frame is here.
func setsidRow(ctx context.Context, b *bench) ([]result, error) {
	took := make([]time.Duration, b.sizes.setsidRounds)
	survived := 0
	for i := range took {
		duration := marked(300)
		command := fmt.Sprintf("setsid sleep %s & echo up; sleep 300", duration)
		var err error
		if took[i], err = b.abortOnce(ctx, command, duration); err != nil {
			return nil, err
		}
		survived += len(sleepers(duration))
		endSleepers(duration)
	}
	r := absolute("abort beside a setsid child, p50", "ms", in(time.Millisecond, took), target{Most: 20})
	r.Note = fmt.Sprintf("worst %.1f ms, nothing survives", quantile(in(time.Millisecond, took), 1))
	if survived > 0 {
		r.Note, r.Failed = fmt.Sprintf("%d of %d survived", survived, len(took)), true
	}
	return []result{r}, nil
}

// abortOnce runs a command that says when it is up, and aborts it. If duration is
// not empty it waits for the sleep of that duration too.
func (b *bench) abortOnce(ctx context.Context, command, duration string) (time.Duration, error) {
	c, err := b.worker.exec(command)
	if err != nil {
		return 0, err
	}
	if err := c.begin(ctx); err != nil {
		return 0, err
	}
	if duration != "" {
		if err := waitSleeper(duration); err != nil {
			return 0, err
		}
	}
	time.Sleep(settle)
	abortedAt, err := c.abort()
	if err != nil {
		return 0, err
	}
	if err := c.wait(ctx, c.done); err != nil {
		return 0, err
	}
	if end := c.end.GetEnd(); end == nil || end.GetExitCode() != -1 {
		return 0, fmt.Errorf("aborted exec %d ended with %v", c.reqID, c.end)
	}
	return c.endedAt.Sub(abortedAt), nil
}
