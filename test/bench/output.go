package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// streamRow is a large output, against a sender that has nothing to read.
func streamRow(ctx context.Context, b *bench) (_ []result, err error) {
	raw, err := b.startSender(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, raw.stop()) }()
	size := b.sizes.streamMiB << 20
	gib := float64(size) / (1 << 30)
	var rate, rawRate, cpu, rawCPU []float64
	one := func(s *session, command string, pids []int, rates, cpus *[]float64) error {
		before, err := cpuOf(pids...)
		if err != nil {
			return err
		}
		c, err := s.run(ctx, command)
		if err != nil {
			return err
		}
		after, err := cpuOf(pids...)
		if err != nil {
			return err
		}
		if c.bytes != size {
			return fmt.Errorf("%d bytes came of %d", c.bytes, size)
		}
		*rates = append(*rates, gib/c.took().Seconds())
		*cpus = append(*cpus, (after-before).Seconds()/gib)
		return nil
	}
	command := fmt.Sprintf("head -c %d /dev/zero", size)
	for range b.sizes.streamRounds {
		if err := one(b.worker.session, command, b.worker.pids, &rate, &cpu); err != nil {
			return nil, err
		}
		if err := one(raw.session, strconv.Itoa(size), []int{raw.cmd.Process.Pid}, &rawRate, &rawCPU); err != nil {
			return nil, err
		}
	}
	return []result{
		compared("stream", "GiB/s", rate, rawRate, target{Least: 1.2}),
		compared("stream CPU of the worker", "s/GiB", cpu, rawCPU, target{Most: 0.9}),
	}, nil
}

// The loop that writes, and one that ends at once: both make the list first, which
// takes bash longer than to write a word.
const (
	writesLoop  = "for i in {1..20000}; do echo x; done"
	writesFirst = "for i in {1..20000}; do echo x; break; done"
)

// writesRow is about gathering: many small writes must not become many frames, and
// the first of them must not wait for others.
func writesRow(ctx context.Context, b *bench) ([]result, error) {
	var frames, first, single []float64
	for range b.sizes.writesRounds {
		c, err := b.worker.run(ctx, writesFirst)
		if err != nil {
			return nil, err
		}
		single = append(single, millis(c.firstAt.Sub(c.sentAt)))
		if c, err = b.worker.run(ctx, writesLoop); err != nil {
			return nil, err
		}
		if c.bytes != 40000 {
			return nil, fmt.Errorf("%d bytes came of 40000", c.bytes)
		}
		first = append(first, millis(c.firstAt.Sub(c.sentAt)))
		frames = append(frames, float64(c.chunks))
	}
	firstByte := compared("first byte of those", "ms", first, single, target{})
	firstByte.Note = "floor: the first write alone"
	return []result{
		absolute("20 000 writes of 2 bytes", "frames", frames, target{Most: 300}),
		firstByte,
	}, nil
}

// backgroundRow is a command that ends and leaves something behind that holds its
// output. That must be answered soon, and what it left must live.
func backgroundRow(ctx context.Context, b *bench) ([]result, error) {
	var took []float64
	died := 0
	for range b.sizes.backgroundRounds {
		duration := marked(3)
		c, err := b.worker.run(ctx, "sleep "+duration+" & echo hi")
		if err != nil {
			return nil, err
		}
		if c.bytes != len("hi\n") {
			return nil, fmt.Errorf("%d bytes came of %d", c.bytes, len("hi\n"))
		}
		took = append(took, c.took().Seconds())
		if left := len(sleepers(duration)); left == 0 && c.took() < 3*time.Second {
			died++
		}
		endSleepers(duration)
	}
	r := absolute("sleep 3 & echo hi", "s", took, target{Most: 0.35})
	r.Note = "the sleep lives"
	if died > 0 {
		r.Note, r.Failed = fmt.Sprintf("the sleep died, %d times of %d", died, len(took)), true
	}
	return []result{r}, nil
}
