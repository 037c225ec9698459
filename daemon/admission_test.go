package daemon_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"execworker/daemon"
	"execworker/daemon/observe"
	"execworker/test/relaytest"
)

// doorLog remembers the changes of admission.
type doorLog struct {
	mu      sync.Mutex
	changes []string
}

func (l *doorLog) hold(e observe.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e := e.(type) {
	case observe.AdmissionClosed:
		l.changes = append(l.changes, "closed: "+e.Reason)
	case observe.AdmissionOpened:
		l.changes = append(l.changes, "opened")
	}
}

func (l *doorLog) want(t *testing.T, want ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.changes, want) {
		t.Errorf("events are %q, want %q", l.changes, want)
	}
}

// waitQueued waits until so many execs wait for a slot.
func waitQueued(t *testing.T, d *daemon.Daemon, n int) {
	t.Helper()
	for d.Status().Queued != n {
		time.Sleep(time.Millisecond) // whoever is queued is not reported again
	}
}

func TestClosedAdmissionRefusesNewExecsUntilItOpens(t *testing.T) {
	d, r, _ := start(t, 1, nil)
	s := r.Attach(t)
	d.CloseAdmission("because")
	s.Exec(t, 1, "exit 5")
	s.WantError(t, 1, "busy: draining")
	if err := d.OpenAdmission(); err != nil {
		t.Error(err)
	}
	s.Exec(t, 1, "exit 5")
	s.WantEnd(t, 1, 5)
}

func TestClosedAdmissionLetsGoOnWhatWasAdmitted(t *testing.T) {
	d, r, rec := start(t, 1, nil)
	s := r.Attach(t)
	s.Exec(t, 1, "exit 1")
	s.WantEnd(t, 1, 1)
	rec.want(t, "1", "judged run", "dequeued", "spawned", "ended exit")
	s.Exec(t, 2, "echo up; sleep 300", relaytest.Streaming(true))
	s.WaitOutput(t, 2, "up")
	queued := relaytest.ExecFrame(3, "exit 3")
	s.Send(t, queued)
	waitQueued(t, d, 1)
	d.CloseAdmission("")
	s.Exec(t, 1, "exit 1")
	s.WantEnd(t, 1, 1)
	s.Send(t, queued)
	s.Exec(t, 4, "exit 4")
	s.WantError(t, 4, "busy: draining")
	s.Abort(t, 2)
	s.WantEnd(t, 2, -1)
	s.WantEnd(t, 3, 3)
	rec.want(t, "1", "judged run", "dequeued", "spawned", "ended exit", "judged replay")
	rec.want(t, "3", "judged run", "judged join", "dequeued", "spawned", "ended exit")
}

func TestAdmissionIsToldOfOncePerChange(t *testing.T) {
	log := new(doorLog)
	d, _, _ := start(t, 1, log.hold)
	if err := d.OpenAdmission(); err != nil {
		t.Error(err)
	}
	log.want(t)
	d.CloseAdmission("first")
	d.CloseAdmission("second")
	if status := d.Status(); !status.Closed || status.ClosedReason != "first" || status.Draining {
		t.Errorf("status: %+v", status)
	}
	for range 2 {
		if err := d.OpenAdmission(); err != nil {
			t.Error(err)
		}
	}
	if status := d.Status(); status.Closed || status.ClosedReason != "" {
		t.Errorf("status: %+v", status)
	}
	log.want(t, "closed: first", "opened")
}

func TestAdmissionOfAWorkerThatStopsDoesNotOpen(t *testing.T) {
	for name, end := range map[string]func(*daemon.Daemon, context.CancelCauseFunc){
		"by a drain": func(d *daemon.Daemon, _ context.CancelCauseFunc) { d.Drain() },
		"at once":    func(_ *daemon.Daemon, stop context.CancelCauseFunc) { stop(errors.New("second signal")) },
	} {
		t.Run(name, func(t *testing.T) {
			log, stopping := new(doorLog), make(chan struct{})
			d, stop := startStoppable(t, relaytest.New(t), &recorder{events: map[string][]string{}, hold: func(e observe.Event) {
				log.hold(e)
				if _, ok := e.(observe.DrainBegan); ok {
					close(stopping)
				}
			}}, func(*daemon.Config) {})
			d.CloseAdmission("for good")
			end(d, stop)
			<-stopping
			if err := d.OpenAdmission(); err == nil {
				t.Error("it opens")
			}
			if !d.Status().Closed {
				t.Error("it is open")
			}
			log.want(t, "closed: for good")
		})
	}
}
