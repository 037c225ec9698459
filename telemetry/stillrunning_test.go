package telemetry

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"execworker/daemon/observe"
)

// An exec that runs for ten minutes is told of five times, one that is quick or
// queued never.
func TestExecThatDoesNotEndIsLoggedAtGrowingIntervals(t *testing.T) {
	var out bytes.Buffer
	log, err := NewLogger(&out, FormatJSON, slog.LevelInfo)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	long := observe.Inflight{
		Exec: observe.Exec{ID: observe.SandboxID(7), Seq: 1, Trace: observe.Trace{ID: "abc", SpanID: "def"}}, State: observe.StateRunning, PID: 12,
		StartedAt: began, LastOutputAt: began.Add(5 * time.Second), StdoutBytes: 99,
	}
	queued := observe.Inflight{Exec: observe.Exec{ID: observe.SandboxID(8), Seq: 2}, State: observe.StateQueued}
	s := still{log: log, next: map[uint64]time.Duration{}}
	for at := time.Duration(0); at <= 10*time.Minute; at += time.Second {
		all := []observe.Inflight{queued, long}
		if at < 20*time.Second {
			all = append(all, observe.Inflight{Exec: observe.Exec{ID: observe.SandboxID(9), Seq: 3}, StartedAt: began})
		}
		s.look(t.Context(), all, began.Add(at))
	}
	var ages []float64
	for line := range strings.Lines(out.String()) {
		var l map[string]any
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l["msg"] != "exec.still_running" || l["req_id"] != "7" || l["trace_id"] != "abc" || l["stdout_bytes"] != 99.0 || l["idle_ms"] != l["run_ms"].(float64)-5000 {
			t.Errorf("%s", line)
		}
		ages = append(ages, l["run_ms"].(float64)/1000)
	}
	if want := []float64{30, 60, 120, 240, 480}; len(ages) != len(want) || ages[0] != 30 || ages[4] != 480 {
		t.Errorf("told of at %v, want %v", ages, want)
	}
	if len(s.next) != 1 {
		t.Errorf("what has ended is remembered: %v", s.next)
	}
}
