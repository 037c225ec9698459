package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sandboxv1 "execworker/proto/sandbox/v1"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// The test binary runs itself as the floors.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "floor-") {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestBenchMeasures runs every row with the tiniest samples. It is about the bench
// and not about speed: figures must come out, and nothing may be left running.
func TestBenchMeasures(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	o := options{uid: -1, sizes: smoke, json: filepath.Join(t.TempDir(), "out.json")}
	results, err := measure(ctx, o, rows, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Measured <= 0 || r.Floor < 0 || r.Rounds == 0 {
			t.Errorf("%s: measured %v over %v in %d rounds", r.Row, r.Measured, r.Floor, r.Rounds)
		}
	}
	var table bytes.Buffer
	printTable(&table, results)
	if got, want := strings.Count(table.String(), "\n"), len(results)+1; got != want {
		t.Errorf("the table has %d lines, want %d:\n%s", got, want, &table)
	}
	if err := writeJSON(o.json, o, results); err != nil {
		t.Fatal(err)
	}
	var written report
	if b, err := os.ReadFile(o.json); err != nil {
		t.Error(err)
	} else if err := json.Unmarshal(b, &written); err != nil || len(written.Results) != len(results) {
		t.Errorf("%d results in JSON, want %d: %v", len(written.Results), len(results), err)
	}
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		if b, err := os.ReadFile(list); err == nil && len(b) > 0 {
			t.Errorf("processes left: %s", b)
		}
	}
}

func TestChooseKnowsItsRows(t *testing.T) {
	got, err := choose("stream,true")
	if err != nil || len(got) != 2 || got[0].name != "true" || got[1].name != "stream" {
		t.Errorf("got %v, %v; want true and stream, in the table's order", got, err)
	}
	if _, err := choose("true,treu"); err == nil {
		t.Error("a row that does not exist was taken")
	}
}

func TestJudged(t *testing.T) {
	for _, c := range []struct {
		r    result
		want string
	}{
		{result{Measured: 9}, ""},
		{result{Measured: 9, Target: target{Most: 10}}, "ok"},
		{result{Measured: 9, Target: target{Most: 10}, Failed: true}, "miss"},
		{result{Measured: 9, Floor: 3, Ratio: 3, Target: target{Most: 2}}, "miss"},
		{result{Measured: 9, Floor: 3, Ratio: 3, Target: target{Least: 2}}, "ok"},
		{result{Measured: 2, Floor: 2, Ratio: 1, Target: target{Least: 2}}, "miss"},
	} {
		if got := c.r.judged(); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.r, got, c.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	samples := []float64{4, 1, 3, 2}
	for q, want := range map[float64]float64{0: 1, 0.5: 2.5, 1: 4} {
		if got := quantile(samples, q); got != want {
			t.Errorf("quantile %v: got %v, want %v", q, got, want)
		}
	}
	if samples[0] != 4 {
		t.Error("the samples were sorted")
	}
}

// TestCodecReadsHeaders holds that the relay's short cut sees in a chunk what
// protobuf does, in whatever pieces the message comes, and leaves other frames
// to protobuf.
func TestCodecReadsHeaders(t *testing.T) {
	for _, size := range []int{0, 1, 200, 32 << 10} {
		chunk := &sandboxv1.Chunk{ReqId: 1 << 40, Stream: sandboxv1.Stream_STREAM_STDERR, Data: make([]byte, size)}
		message, err := proto.Marshal(&sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_Chunk{Chunk: chunk}})
		if err != nil {
			t.Fatal(err)
		}
		for _, cut := range []int{len(message), 1, 3} {
			t.Run(fmt.Sprintf("%d bytes cut at %d", size, cut), func(t *testing.T) {
				var in inbound
				pieces := mem.BufferSlice{mem.SliceBuffer(message[:cut]), mem.SliceBuffer(message[cut:])}
				if err := (codec{}).Unmarshal(pieces, &in); err != nil {
					t.Fatal(err)
				}
				if !in.isChunk || in.reqID != 1<<40 || in.bytes != size {
					t.Errorf("got %v, req_id %d, %d bytes", in.isChunk, in.reqID, in.bytes)
				}
			})
		}
	}
	end := &sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_End{End: &sandboxv1.End{ReqId: 7, ExitCode: -1}}}
	message, err := codec{}.Marshal(end)
	if err != nil {
		t.Fatal(err)
	}
	var in inbound
	if err := (codec{}).Unmarshal(message, &in); err != nil {
		t.Fatal(err)
	}
	if in.isChunk || !proto.Equal(&in.frame, end) {
		t.Errorf("got %v, want %v", &in.frame, end)
	}
}
