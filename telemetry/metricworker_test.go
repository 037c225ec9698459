package telemetry_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"execworker/daemon"
	"execworker/daemon/observe"
	"execworker/telemetry"
	"execworker/test/relaytest"
)

var _ telemetry.Worker = (*daemon.Daemon)(nil)

// heard are the verdicts and the ends of execs.
type heard chan observe.Event

func (h heard) Begin(ctx context.Context, _ observe.Exec) context.Context { return ctx }

func (h heard) Event(_ context.Context, e observe.Event) {
	switch e.(type) {
	case observe.Judged, observe.Ended:
		h <- e
	}
}

// wait returns after n events of type E, from now on.
func wait[E observe.Event](t *testing.T, h heard, n int) {
	t.Helper()
	hang := time.After(30 * time.Second)
	for n > 0 {
		select {
		case e := <-h:
			if _, ok := e.(E); ok {
				n--
			}
		case <-hang:
			t.Fatalf("%d events of type %T do not come", n, *new(E))
		}
	}
}

// start runs a worker with one slot and metrics until the test's end, which
// finds no goroutine left. What is heard has been counted.
func start(t *testing.T) (*daemon.Daemon, *relaytest.Relay, *telemetry.Metrics, heard) {
	t.Helper()
	h := make(heard, 100)
	before := goleak.IgnoreCurrent()
	r := relaytest.New(t)
	m, err := telemetry.NewMetrics("1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.New(daemon.Config{
		Relay:         daemon.Relay{Addr: r.Addr(), Token: func() (string, error) { return r.Token(), nil }},
		SandboxID:     "relaytest",
		Slots:         1,
		WorkspaceRoot: t.TempDir(),
		Drain:         time.Second,
		Env:           os.Environ(),
		Observer:      observe.Observers{m, h},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Ask(d)
	ran := make(chan error, 1)
	go func() { ran <- d.Run(context.Background()) }()
	t.Cleanup(func() {
		d.Drain()
		select {
		case err := <-ran:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("the drain hangs")
		}
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
		r.Stop()
		goleak.VerifyNone(t, before)
	})
	return d, r, m, h
}

func wantLines(t *testing.T, m *telemetry.Metrics, want ...string) {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range want {
		if !strings.Contains(w.Body.String(), "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if t.Failed() {
		t.Log(w.Body)
	}
}

// TestARealWorkerIsCounted is one exec of each kind, whose metrics say the same
// as the worker's own snapshots.
func TestARealWorkerIsCounted(t *testing.T) {
	d, r, m, h := start(t)
	s := r.Attach(t)
	s.Exec(t, 1, "echo up; sleep 300", relaytest.Streaming(true))
	s.WaitOutput(t, 1, "up")
	s.Exec(t, 2, "echo queued")
	wait[observe.Judged](t, h, 2)
	wantLines(t, m,
		`sandbox_exec_active{state="running"} 1`,
		`sandbox_exec_active{state="queued"} 1`,
		`sandbox_exec_capacity 1`,
		`sandbox_attach_up 1`,
	)
	s.Abort(t, 2)
	s.WantEnd(t, 2, -1)
	s.Abort(t, 1)
	s.WantEnd(t, 1, -1)
	s.Abort(t, 1)
	s.Exec(t, 3, "echo three; exit 3")
	s.WantEnd(t, 3, 3)
	s.Exec(t, 3, "echo three; exit 3")
	s.Answers(t, 3, 2)
	s.Exec(t, 4, "sleep 300", relaytest.Timeout(1))
	s.WantError(t, 4, "timeout:1")
	s.Exec(t, 5, "x", relaytest.Key("../no"))
	s.WantError(t, 5, "")
	wait[observe.Ended](t, h, 4)
	wantLines(t, m,
		`sandbox_exec_duration_seconds_count{outcome="abort",streaming="true"} 1`,
		`sandbox_exec_duration_seconds_count{outcome="abort",streaming="false"} 1`,
		`sandbox_exec_duration_seconds_count{outcome="exit",streaming="false"} 1`,
		`sandbox_exec_duration_seconds_count{outcome="timeout",streaming="false"} 1`,
		`sandbox_exec_queue_duration_seconds_count{outcome="aborted"} 1`,
		`sandbox_exec_queue_duration_seconds_count{outcome="started"} 3`,
		`sandbox_exec_spawn_duration_seconds_count 3`,
		`sandbox_exec_kill_duration_seconds_count{reason="caller"} 1`,
		`sandbox_exec_kill_duration_seconds_count{reason="timeout"} 1`,
		`sandbox_exec_output_bytes_total{stream="stdout"} 9`,
		`sandbox_abort_requests_total{result="dequeued",source="relay"} 1`,
		`sandbox_abort_requests_total{result="killed",source="relay"} 1`,
		`sandbox_abort_requests_total{result="unknown",source="relay"} 1`,
		`sandbox_dedup_lookups_total{result="hit"} 1`,
		`sandbox_dedup_lookups_total{result="miss"} 4`,
		`sandbox_dedup_entries 2`,
		`sandbox_exec_refused_total{reason="invalid"} 1`,
		`sandbox_attach_attempts_total{result="attached"} 1`,
		`sandbox_exec_active{state="running"} 0`,
	)
	if totals := d.Status().Totals; totals.Execs != 4 || totals.Aborts != 2 || totals.Timeouts != 1 || totals.Replays != 1 || totals.Refused != 1 {
		t.Errorf("the worker itself counts %+v", totals)
	}
}
