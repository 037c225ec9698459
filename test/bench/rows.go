package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// row measures one thing and gives one result or several that come of the same
// samples.
type row struct {
	name string
	run  func(context.Context, *bench) ([]result, error)
}

// rows are in the order of the design's table. Those that leave something behind
// for a while, or start workers of their own, come last.
var rows = []row{
	{"true", trueRow},
	{"watched", watchedRow},
	{"traced", tracedRow},
	{"bare", bareRow},
	{"wire", wireRow},
	{"rate", rateRow},
	{"stream", streamRow},
	{"flood", floodRow},
	{"writes", writesRow},
	{"abort", abortRow},
	{"setsid", setsidRow},
	{"background", backgroundRow},
	{"memory", memoryRow},
	{"start", startRow},
}

// sizes say how much is sampled. A round is a batch of the worker and one of its
// floor.
type sizes struct {
	trueRounds, trueBatch   int
	rateRounds, rateBatch   int // a batch is of so many for each of the callers
	streamRounds, streamMiB int
	floodRounds, floodBatch int
	writesRounds            int
	abortRounds, abortBatch int
	setsidRounds            int
	backgroundRounds        int
	startRounds             int
	idle                    time.Duration // before memory is read
}

var (
	full = sizes{
		trueRounds: 60, trueBatch: 40, rateRounds: 30, rateBatch: 10, streamRounds: 9, streamMiB: 1024,
		floodRounds: 40, floodBatch: 20, writesRounds: 20, abortRounds: 40, abortBatch: 5, setsidRounds: 50,
		backgroundRounds: 5, startRounds: 20, idle: 10 * time.Second,
	}
	quick = sizes{
		trueRounds: 20, trueBatch: 20, rateRounds: 8, rateBatch: 6, streamRounds: 5, streamMiB: 256,
		floodRounds: 10, floodBatch: 10, writesRounds: 5, abortRounds: 8, abortBatch: 5, setsidRounds: 10,
		backgroundRounds: 2, startRounds: 7, idle: time.Second,
	}
	smoke = sizes{
		trueRounds: 1, trueBatch: 2, rateRounds: 1, rateBatch: 1, streamRounds: 1, streamMiB: 1,
		floodRounds: 1, floodBatch: 1, writesRounds: 1, abortRounds: 1, abortBatch: 1, setsidRounds: 1,
		backgroundRounds: 1, startRounds: 1, idle: time.Millisecond,
	}
)

func rowNames() []string {
	var names []string
	for _, r := range rows {
		names = append(names, r.name)
	}
	return names
}

func choose(only string) ([]row, error) {
	if only == "" {
		return rows, nil
	}
	wanted := strings.Split(only, ",")
	for _, name := range wanted {
		if !slices.Contains(rowNames(), name) {
			return nil, fmt.Errorf("no row %q; there are %s", name, strings.Join(rowNames(), ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !slices.Contains(wanted, r.name) }), nil
}

// measure runs rows one after the other, against one worker and one floor.
func measure(ctx context.Context, o options, chosen []row, progress io.Writer) (results []result, err error) {
	b, err := newBench(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := b.close(); err == nil {
			err = closeErr
		}
	}()
	for _, r := range chosen {
		began := time.Now()
		got, err := r.run(ctx, b)
		results = append(results, got...)
		if err != nil {
			return results, fmt.Errorf("%s: %w", r.name, err)
		}
		fmt.Fprintf(progress, "%-10s %5.1f s\n", r.name, time.Since(began).Seconds())
	}
	return results, nil
}
