package main

import (
	"context"
	"time"
)

// memoryRow is a worker that has done nothing yet.
func memoryRow(ctx context.Context, b *bench) ([]result, error) {
	w, err := b.startWorker(ctx)
	if err != nil {
		return nil, err
	}
	time.Sleep(b.sizes.idle)
	resident, err := residentOf(w.pids...)
	if stopErr := w.stop(); err == nil {
		err = stopErr
	}
	return []result{absolute("resident, idle", "MB", []float64{resident / 1e6}, target{Most: 25})}, err
}

// startRow is the time from the start of the process to its Hello.
func startRow(ctx context.Context, b *bench) ([]result, error) {
	var took []float64
	for range b.sizes.startRounds {
		w, err := b.startWorker(ctx)
		if err != nil {
			return nil, err
		}
		took = append(took, millis(w.helloAt.Sub(w.startedAt)))
		if err := w.stop(); err != nil {
			return nil, err
		}
	}
	return []result{absolute("start to Hello", "ms", took, target{Most: 60})}, nil
}
