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
		{"lost for long", observe.Status{QueueCap: 64, NextAttempt: time.Now().Add(time.Second)}, lost(time.Hour), 200, 503, "[-]relay lost"},
		{"attached since the status was read", observe.Status{QueueCap: 64}, []observe.Session{{HelloAt: time.Now()}}, 200, 200, "ok"},
		{"no attempt after the last", observe.Status{QueueCap: 64}, lost(2 * time.Minute), 503, 503, "[-]session stuck: no attempt follows"},
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

// Times that decide, to the moment.
func TestTimesOfHealth(t *testing.T) {
	s := serverOf(busyWorker())
	now := s.health.started.Add(time.Hour)
	before := func(d time.Duration) time.Time { return now.Add(-d) }
	relay := func(v vitals) checkView { return s.relayCheck(v, now) }
	session := func(v vitals) checkView { return liveChecks(s, v, now)[0] }
	lost := func(ago time.Duration) vitals {
		return vitals{sessions: []observe.Session{{DialedAt: before(time.Second)}, {HelloAt: before(time.Hour), EndedAt: before(ago)}}}
	}
	dialed := func(ago time.Duration) vitals { return vitals{sessions: []observe.Session{{DialedAt: before(ago)}}} }
	next := func(ago time.Duration) vitals { return vitals{status: observe.Status{NextAttempt: before(ago)}} }
	after := func(ago time.Duration) vitals { return vitals{sessions: []observe.Session{{EndedAt: before(ago)}}} }
	for _, c := range []struct {
		name    string
		check   checkView
		healthy bool
		since   time.Time
	}{
		{"just recovering", relay(lost(recovery - 1)), true, before(recovery - 1)},
		{"no longer recovering", relay(lost(recovery)), false, before(recovery)},
		{"attached", relay(vitals{status: observe.Status{Attached: true}, sessions: []observe.Session{{HelloAt: before(time.Minute)}}}), true, before(time.Minute)},
		{"never attached", relay(dialed(0)), false, s.health.started},
		{"an attempt at its limit", session(dialed(attemptMost)), true, time.Time{}},
		{"an attempt past it", session(dialed(attemptMost + 1)), false, before(attemptMost + 1)},
		{"a next attempt at its limit", session(next(overdueMost)), true, time.Time{}},
		{"a next attempt past it", session(next(overdueMost + 1)), false, before(overdueMost + 1)},
		{"nothing after the last attempt", session(after(attemptMost)), true, time.Time{}},
		{"nothing for too long", session(after(attemptMost + 1)), false, before(attemptMost + 1)},
		{"no attempt at all", session(vitals{}), false, s.health.started},
		{"stopping", session(vitals{status: observe.Status{Draining: true}}), true, time.Time{}},
	} {
		since := "null"
		if c.check.Since != nil {
			since = *c.check.Since
		}
		want := "null"
		if w := when(c.since); w != nil {
			want = *w
		}
		if c.check.Healthy != c.healthy || since != want {
			t.Errorf("%s: healthy %t since %s, want %t since %s", c.name, c.check.Healthy, since, c.healthy, want)
		}
	}
}
