package daemon_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"execworker/daemon"
	"execworker/daemon/observe"
	"execworker/test/relaytest"

	"go.uber.org/goleak"
)

// recorder remembers what each exec's events are called, and lets a test hold
// the worker inside one.
type recorder struct {
	mu     sync.Mutex
	events map[string][]string // by req_id
	more   chan struct{}       // closed by the next event; nil when nobody waits
	hold   func(observe.Event)
}

func (r *recorder) Begin(ctx context.Context, x observe.Exec) context.Context { return ctx }

func (r *recorder) Event(_ context.Context, e observe.Event) {
	if id, name := of(e); id != "" {
		r.mu.Lock()
		r.events[id] = append(r.events[id], name)
		if r.more != nil {
			close(r.more)
			r.more = nil
		}
		r.mu.Unlock()
	}
	if r.hold != nil {
		r.hold(e)
	}
}

func of(e observe.Event) (reqID, name string) {
	var x observe.Exec
	switch e := e.(type) {
	case observe.Judged:
		return e.Exec.ID.ID, "judged " + string(e.Verdict)
	case observe.Dequeued:
		x = e.Exec
	case observe.Spawned:
		x = e.Exec
	case observe.FirstOutput:
		x = e.Exec
	case observe.AbortRequested:
		x = e.Exec
	case observe.KillBegan:
		x = e.Exec
	case observe.KillEnded:
		x = e.Exec
	case observe.Ended:
		return e.Receipt.Exec.ID.ID, "ended " + string(e.Receipt.Outcome)
	default:
		return "", ""
	}
	return x.ID.ID, strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", e), "observe."))
}

// want waits for as many events as are wanted: the last comes after the frame
// that the test has seen.
func (r *recorder) want(t *testing.T, reqID string, want ...string) {
	t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		r.mu.Lock()
		got, more := slices.Clone(r.events[reqID]), make(chan struct{})
		r.more = more
		r.mu.Unlock()
		if len(got) < len(want) {
			select {
			case <-more:
				continue
			case <-timeout:
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("events of %s are %q, want %q", reqID, got, want)
		}
		return
	}
}

// start runs a daemon in this process, at a relay of its own, until the test's
// end, which finds no goroutine left.
func start(t *testing.T, slots int, hold func(observe.Event)) (*daemon.Daemon, *relaytest.Relay, *recorder) {
	t.Helper()
	r := relaytest.New(t)
	d, rec := startAt(t, r, hold, func(c *daemon.Config) { c.Slots = slots })
	return d, r, rec
}

// startAt is start for a relay that is there and a Config that is changed. The
// worker begins at once.
func startAt(t *testing.T, r *relaytest.Relay, hold func(observe.Event), change func(*daemon.Config)) (*daemon.Daemon, *recorder) {
	t.Helper()
	rec := &recorder{events: map[string][]string{}, hold: hold}
	d, _ := startStoppable(t, r, rec, change)
	return d, rec
}

// startStoppable is startAt with an observer of the test's own, for a worker
// that stop may end at once.
func startStoppable(t *testing.T, r *relaytest.Relay, o observe.Observer, change func(*daemon.Config)) (_ *daemon.Daemon, stop context.CancelCauseFunc) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	config := daemon.Config{
		Relay:         daemon.Relay{Addr: r.Addr(), Token: func() (string, error) { return r.Token(), nil }},
		SandboxID:     "relaytest",
		Slots:         1,
		WorkspaceRoot: t.TempDir(),
		Drain:         time.Second,
		Env:           os.Environ(),
		Observer:      o,
	}
	change(&config)
	d, err := daemon.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	ctx, stop := context.WithCancelCause(context.Background())
	go func() { ran <- d.Run(ctx) }()
	t.Cleanup(func() {
		d.Drain()
		select {
		case err := <-ran:
			if err != context.Cause(ctx) {
				t.Errorf("Run says %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("the drain hangs")
		}
		r.Stop()
		goleak.VerifyNone(t, before)
	})
	return d, stop
}

// TestHeirIsJudgedTwiceAndRuns holds the first verdict of an exec that waits
// behind a dying run until that run has ended, so that both verdicts meet.
func TestHeirIsJudgedTwiceAndRuns(t *testing.T) {
	killed, ended := make(chan struct{}), make(chan struct{})
	_, r, rec := start(t, 1, func(e observe.Event) {
		switch e := e.(type) {
		case observe.KillEnded:
			<-killed
		case observe.Ended:
			if e.Receipt.Outcome == observe.OutcomeLost {
				close(ended)
			}
		case observe.Judged:
			if e.Verdict == observe.VerdictWait {
				close(killed)
				<-ended
			}
		}
	})
	command := "echo up; sleep 0.5; exit 3"
	s := r.Attach(t)
	s.Exec(t, 1, command, relaytest.Streaming(true))
	s.WaitOutput(t, 1, "up")
	s.Drop(nil)
	rec.want(t, "1", "judged run", "dequeued", "spawned", "firstoutput", "killbegan", "killended")
	s = r.Attach(t)
	s.Exec(t, 1, command, relaytest.Streaming(true))
	s.WantEnd(t, 1, 3)
	s.Exec(t, 2, "echo alive")
	s.WantEnd(t, 2, 0)
	rec.want(t, "1",
		"judged run", "dequeued", "spawned", "firstoutput", "killbegan", "killended",
		"judged wait", "ended stream_lost", "judged run", "dequeued", "spawned", "firstoutput", "ended exit")
}

func TestAnOperatorsAbortIsReportedInItsPlace(t *testing.T) {
	d, r, rec := start(t, 1, nil)
	s := r.Attach(t)
	s.Exec(t, 1, "echo up; sleep 300", relaytest.Streaming(true))
	s.WaitOutput(t, 1, "up")
	s.Exec(t, 2, "echo queued")
	for d.Status().Queued == 0 {
		time.Sleep(time.Millisecond)
	}
	for _, id := range []uint64{2, 1} {
		if d.Abort(observe.SandboxID(id), 0, observe.EndedByAdmin, "because") == observe.AbortNone {
			t.Errorf("%d is not there", id)
		}
		s.WantEnd(t, id, -1)
	}
	other := observe.ID{Source: "terminal", ID: "1"}
	if d.Abort(observe.SandboxID(1), 0, observe.EndedByAdmin, "") != observe.AbortNone || d.Abort(other, 0, observe.EndedByAdmin, "") != observe.AbortNone {
		t.Error("what is not in flight was aborted")
	}
	s.Fence(t)
	rec.want(t, "1", "judged run", "dequeued", "spawned", "firstoutput", "abortrequested", "killbegan", "killended", "ended abort")
	rec.want(t, "2", "judged run", "abortrequested", "ended abort")
	for _, receipt := range d.Receipts() {
		if receipt.Outcome == observe.OutcomeAbort && (receipt.Reason != "because" || receipt.EndedBy != observe.EndedByAdmin) {
			t.Errorf("receipt says %q by %s", receipt.Reason, receipt.EndedBy)
		}
	}
}

func TestSnapshotsShowWhatIs(t *testing.T) {
	d, r, _ := start(t, 1, nil)
	s := r.Attach(t)
	s.Exec(t, 1, "echo up; sleep 300", relaytest.Streaming(true))
	s.WaitOutput(t, 1, "up")
	s.Exec(t, 2, "echo queued")
	for d.Status().Queued == 0 {
		time.Sleep(time.Millisecond)
	}
	in := d.Inflight()
	if len(in) != 2 || in[0].State != observe.StateRunning || in[0].PID == 0 || in[0].StdoutBytes != 3 || in[0].Chunks != 1 ||
		in[1].State != observe.StateQueued || in[1].QueuePosition != 1 {
		t.Errorf("in flight: %+v", in)
	}
	s.Abort(t, 1)
	s.WantEnd(t, 1, -1)
	s.WantEnd(t, 2, 0)
	s.Exec(t, 3, "(sleep 0.5; echo tail; sleep 300) & exit 0")
	s.WantEnd(t, 3, 0)
	for len(d.Survivors()) == 0 || len(d.Survivors()[0].Tail) == 0 {
		time.Sleep(5 * time.Millisecond)
	}
	left := d.Survivors()[0]
	if left.Exec.ID != observe.SandboxID(3) || string(left.Tail) != "tail\n" || len(left.Processes) == 0 {
		t.Errorf("survivors: %+v", left)
	}
	if dedup := d.Dedup(); len(dedup.Entries) != 2 || dedup.Entries[0].ID != observe.SandboxID(3) {
		t.Errorf("dedup: %+v", dedup)
	}
	if status := d.Status(); !status.Attached || status.Session != 1 || status.Totals.Execs != 3 || status.Totals.Aborts != 1 {
		t.Errorf("status: %+v", status)
	}
	if sessions := d.Sessions(); len(sessions) != 1 || sessions[0].FramesIn != 4 {
		t.Errorf("sessions: %+v", sessions)
	}
}
