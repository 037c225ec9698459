package admin

import (
	"strings"
	"sync"
	"testing"
	"time"

	"execworker/daemon/observe"
)

func TestHealth(t *testing.T) {
	well := observe.Status{Attached: true, QueueCap: 64}
	lost := func(ago time.Duration) []observe.Session {
		return []observe.Session{{HelloAt: time.Now().Add(-time.Hour), EndedAt: time.Now().Add(-ago)}}
	}
	for _, c := range []struct {
		name        string
		status      observe.Status
		sessions    []observe.Session
		live, ready int
		says        string // of readyz, or of livez if that is it
	}{
		{"well", well, nil, 200, 200, "ok"},
		{"queue full", observe.Status{Attached: true, Queued: 64, QueueCap: 64}, nil, 200, 503, "[-]queue full: 64 of 64"},
		{"stopping", observe.Status{Attached: true, QueueCap: 64, Draining: true}, nil, 200, 503, "[-]admission draining"},
		{"closed", observe.Status{Attached: true, QueueCap: 64, Closed: true}, nil, 200, 503, "operator"},
		{"never attached", observe.Status{QueueCap: 64}, []observe.Session{{DialedAt: time.Now()}}, 200, 503, "[-]relay never attached"},
		{"lost a moment ago", observe.Status{QueueCap: 64}, lost(time.Second), 200, 200, "ok"},
		{"lost for long", observe.Status{QueueCap: 64}, lost(time.Minute), 200, 503, "[-]relay lost"},
		{"an attempt that does not end", observe.Status{QueueCap: 64}, []observe.Session{{DialedAt: time.Now().Add(-2 * time.Minute)}}, 503, 503, "[-]session stuck"},
		{"an attempt that does not come", observe.Status{QueueCap: 64, NextAttempt: time.Now().Add(-time.Minute)}, nil, 503, 503, "[-]session overdue"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := busyWorker()
			w.status, w.sessions = c.status, c.sessions
			s := serverOf(w)
			live, ready := ask(t, s, descendant, "GET", "/livez"), ask(t, s, descendant, "GET", "/readyz")
			if live.Code != c.live || ready.Code != c.ready {
				t.Errorf("livez %d, readyz %d: %s %s", live.Code, ready.Code, live.Body, ready.Body)
			}
			if !strings.Contains(live.Body.String()+ready.Body.String(), c.says) {
				t.Errorf("%s%s", live.Body, ready.Body)
			}
		})
	}
}

func TestChecksCanBeLeftOut(t *testing.T) {
	w := busyWorker()
	w.status = observe.Status{Attached: true, Queued: 64, QueueCap: 64}
	s := serverOf(w)
	if answer := ask(t, s, unknown, "GET", "/readyz?exclude=queue&exclude=relay&verbose"); answer.Code != 200 || strings.Contains(answer.Body.String(), "queue") || !strings.Contains(answer.Body.String(), "[+]ledger ok") {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	for _, query := range []string{"?exclude=nonsense", "?verbose=maybe", "?x=1"} {
		if answer := ask(t, s, unknown, "GET", "/readyz"+query); answer.Code != 400 {
			t.Errorf("%s: %d", query, answer.Code)
		}
	}
	if answer := ask(t, s, unknown, "GET", "/readyz?format=json"); !strings.Contains(answer.Body.String(), `"healthy": false`) {
		t.Errorf("%s", answer.Body)
	}
}

// hangingWorker does not answer before it is let go.
type hangingWorker struct {
	*fakeWorker
	let   chan struct{}
	times int
}

func (w *hangingWorker) Status() observe.Status {
	w.times++
	<-w.let
	return w.fakeWorker.Status()
}

// A worker that hangs is not alive, and however many ask, one question waits.
func TestWorkerThatHangsIsNotAlive(t *testing.T) {
	w := &hangingWorker{fakeWorker: busyWorker(), let: make(chan struct{})}
	s := serverOf(w.fakeWorker)
	s.worker = w
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if answer := ask(t, s, unknown, "GET", "/livez"); answer.Code != 503 || !strings.Contains(answer.Body.String(), "[-]ledger no answer") {
				t.Errorf("%d %s", answer.Code, answer.Body)
			}
		})
	}
	wg.Wait()
	close(w.let)
	if _, ok := s.vitals(); !ok {
		t.Error("it does not recover")
	}
	if w.times > 2 {
		t.Errorf("the worker was asked %d times", w.times)
	}
}
