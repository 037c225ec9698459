package telemetry

import (
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"execworker/daemon/observe"
)

var update = flag.Bool("update", false, "write testdata anew")

const openMetrics = "application/openmetrics-text; version=1.0.0"

// aWorker is asked by gauges.
type aWorker struct {
	status   observe.Status
	inflight []observe.Inflight
	dedup    observe.Dedup
	sessions []observe.Session
}

func (w *aWorker) Status() observe.Status       { return w.status }
func (w *aWorker) Inflight() []observe.Inflight { return w.inflight }
func (w *aWorker) Dedup() observe.Dedup         { return w.dedup }
func (w *aWorker) Sessions() []observe.Session  { return w.sessions }

func newMetrics(t testing.TB) *Metrics {
	t.Helper()
	m, err := NewMetrics("1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// scrape is the answer to GET /metrics with that Accept.
func scrape(t testing.TB, m *Metrics, accept string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// ofTheRuntime is what nobody here says, and what differs from run to run.
var ofTheRuntime = regexp.MustCompile(`(?m)^(# (HELP|TYPE|UNIT) )?go_.*\n`)

// TestALifeInBothFormats compares every line but those of the Go runtime.
func TestALifeInBothFormats(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "") // the SDK reads it
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics(t)
		life(t, m)
		for accept, file := range map[string]string{"*/*": "metrics.txt", openMetrics: "metrics.openmetrics.txt"} {
			got := ofTheRuntime.ReplaceAllString(scrape(t, m, accept), "")
			path := filepath.Join("testdata", file)
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s: lines that are wrong:\n%s", file, difference(got, string(want)))
			}
		}
	})
}

// difference lists lines that only one of the two has.
func difference(got, want string) string {
	var out strings.Builder
	for _, side := range []struct{ sign, has, lacks string }{{"got  ", got, want}, {"want ", want, got}} {
		lines := map[string]bool{}
		for line := range strings.Lines(side.lacks) {
			lines[line] = true
		}
		for line := range strings.Lines(side.has) {
			if !lines[line] {
				out.WriteString(side.sign + line)
			}
		}
	}
	return out.String()
}

// life is one of everything that can be counted.
func life(t *testing.T, m *Metrics) {
	t.Helper()
	now := time.Now()
	queued := observe.Exec{Seq: 1, Streaming: true, ReceivedAt: now.Add(-3 * time.Second)}
	killed := observe.Exec{Seq: 2, ReceivedAt: now.Add(-70 * time.Second)}
	gone := observe.Session{Number: 1, HelloAt: now.Add(-time.Hour), EndedAt: now, EndReason: "stream broke", Code: "Unavailable"}
	tell(m, []observe.Event{
		observe.Dialing{}, observe.Attached{Session: gone},
		observe.Judged{Exec: queued, Verdict: observe.VerdictRun, Queued: 1},
		observe.Judged{Exec: killed, Verdict: observe.VerdictRun},
		observe.Dequeued{Exec: queued, Waited: 2 * time.Second},
		observe.Dequeued{Exec: killed, Waited: 4 * time.Millisecond},
		observe.Spawned{Exec: queued, PID: 7, Took: 7 * time.Millisecond},
		observe.Spawned{Exec: killed, PID: 8, Took: 3 * time.Millisecond},
		observe.FirstOutput{Exec: queued, Stream: "stdout", After: 30 * time.Millisecond},
		observe.AbortRequested{Exec: killed, By: observe.EndedByCaller},
		observe.KillBegan{Exec: killed, By: observe.EndedByCaller},
		observe.KillEnded{Exec: killed, Took: 40 * time.Millisecond},
		observe.Ended{Receipt: observe.Receipt{
			Exec: killed, Outcome: observe.OutcomeAbort, EndedBy: observe.EndedByCaller, PID: 8, EndedAt: now,
			StdoutBytes: 5 << 20, StdoutCut: 1 << 20, StderrBytes: 100, Chunks: 3,
		}},
		observe.Ended{Receipt: observe.Receipt{
			Exec: queued, Outcome: observe.OutcomeExit, PID: 7, EndedAt: now, StdoutBytes: 812, Chunks: 2,
			Phases: observe.Phases{SendBlocked: 250 * time.Millisecond},
		}},
		observe.SessionEnded{Session: gone, Next: 4 * time.Second},
	})
	m.Request(t.Context(), "/admin/v1/inflight/{req_id}", http.MethodGet, http.StatusOK, 2*time.Millisecond)
	m.Ask(&aWorker{
		status: observe.Status{CapacityMax: 4, QueueCap: 64, Attached: true, OrphansReaped: 12},
		inflight: []observe.Inflight{
			{State: observe.StateRunning}, {State: observe.StateQueued}, {State: observe.StateQueued}, {State: observe.StateKilling},
		},
		dedup:    observe.Dedup{Entries: make([]observe.Completed, 2), Evictions: 9},
		sessions: []observe.Session{{HelloAt: now.Add(-time.Hour), HeartbeatAt: now.Add(-11 * time.Second)}, gone},
	})
}

func TestScrapesAndEventsAtOnce(t *testing.T) {
	m := newMetrics(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 50 {
				tell(m, aLife(uint64(1000*i+n)))
			}
		})
		wg.Go(func() {
			for range 5 {
				m.Ask(&aWorker{inflight: make([]observe.Inflight, i)})
				scrape(t, m, openMetrics)
			}
		})
	}
	wg.Wait()
	wantMetrics(t, m, `sandbox_exec_duration_seconds_count{outcome="exit",streaming="true"} 200`)
	if len(m.begun) != 0 {
		t.Errorf("%d execs that have ended are remembered", len(m.begun))
	}
}

// wantMetrics looks for whole lines.
func wantMetrics(t *testing.T, m *Metrics, want ...string) {
	t.Helper()
	text := scrape(t, m, "")
	for _, line := range want {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			name, _, _ := strings.Cut(line, " ")
			name, _, _ = strings.Cut(name, "{")
			t.Errorf("no line %s\nbut:\n%s", line, strings.Join(regexp.MustCompile(`(?m)^`+name+`\b.*$`).FindAllString(text, -1), "\n"))
		}
	}
}

func TestWithoutAWorkerItsGaugesAreNotThere(t *testing.T) {
	m := newMetrics(t)
	if text := scrape(t, m, ""); strings.Contains(text, "sandbox_exec_active") || !strings.Contains(text, "sandbox_exec_refused_total") {
		t.Errorf("got:\n%s", text)
	}
}

func TestAfterCloseNothingIsShownAndEventsAreHarmless(t *testing.T) {
	m, err := NewMetrics("")
	if err != nil {
		t.Fatal(err)
	}
	m.Ask(&aWorker{})
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	tell(m, aLife(1))
	m.Request(t.Context(), "/", http.MethodGet, http.StatusOK, time.Second)
	m.Ask(&aWorker{})
	if text := scrape(t, m, ""); text != "" {
		t.Errorf("got %q", text)
	}
}
