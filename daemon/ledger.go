package daemon

import (
	"sync"

	"execworker/daemon/observe"
)

const (
	queueLen   = 64        // execs that wait for a slot
	queueBytes = 256 << 20 // of their commands and stdins
)

// ledger is what is in flight and what has finished, under one lock. Each
// method is one decision; its effects (frames, events, processes) come after
// it has returned, for nothing is sent, run or logged while the lock is held.
type ledger struct {
	slots int

	mu       sync.Mutex // guards all below, and the fields of executions that say so
	inflight map[uint64]*execution
	queue    queue[*execution]
	waiting  int // bytes of what is queued, or waits behind a dying run
	running  int // slots in use
	draining bool
	closed   bool          // to new execs, by an operator
	reason   string        // that the operator gave; untrusted
	idle     chan struct{} // made by drain, closed when nothing is in flight
	finished *dedup
	totals   observe.Totals
}

func newLedger(slots int) *ledger {
	return &ledger{slots: slots, inflight: make(map[uint64]*execution), finished: newDedup()}
}

// decision is what becomes of an Exec frame.
type decision struct {
	verdict  observe.Verdict
	answer   outcome       // of a replay or a refusal
	start    bool          // verdict run, and a slot is free: the caller runs it
	judged   chan struct{} // to be closed when the verdict has been reported
	collided bool
	original observe.Trace // of the run that answers a join or a replay
	queued   int
	running  int
}

// admit decides about x, which is not known to the ledger yet.
func (l *ledger) admit(x *execution) decision {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.admitLocked(x)
}

func (l *ledger) admitLocked(x *execution) decision {
	d := l.judgeLocked(x)
	d.judged = x.judged
	switch d.verdict {
	case observe.VerdictRun:
		x.collided = d.collided
		l.inflight[x.reqID] = x
		l.totals.Execs++
		if l.running < l.slots {
			l.running++
			x.state = observe.StateSpawning
			d.start = true
		} else {
			x.state = observe.StateQueued
			l.queue.push(x)
			l.waiting += x.size
		}
	case observe.VerdictWait:
		x.state = observe.StateWaiting
		l.inflight[x.reqID].heir = x
		l.waiting += x.size
	case observe.VerdictReplay:
		l.totals.Replays++
	case observe.VerdictBusy, observe.VerdictConflict:
		l.totals.Refused++
	}
	d.queued, d.running = l.queue.len(), l.running
	return d
}

// judgeLocked is the table of what is known of a req_id.
func (l *ledger) judgeLocked(x *execution) decision {
	rival := l.inflight[x.reqID]
	dying := rival != nil && rival.session != x.session // it is left over from an earlier session
	if dying {
		rival = rival.heir // which, if there is one, is of this session
	}
	switch {
	case rival != nil && rival.fingerprint == x.fingerprint:
		return decision{verdict: observe.VerdictJoin, original: rival.exec.Trace}
	case rival != nil:
		l.finished.counts.Conflicts++
		return decision{verdict: observe.VerdictConflict, answer: conflict()}
	case dying:
		return l.roomLocked(x, decision{verdict: observe.VerdictWait})
	}
	c, collided := l.finished.replay(x.reqID, x.fingerprint)
	if c != nil {
		return decision{verdict: observe.VerdictReplay, answer: c.outcome, original: c.trace}
	}
	return l.roomLocked(x, decision{verdict: observe.VerdictRun, collided: collided})
}

// refuse answers a frame that cannot be run, whatever else is known. Under a
// req_id in flight that is one more case of two callers with one number.
func (l *ledger) refuse(x *execution, o outcome) decision {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.totals.Refused++
	d := decision{verdict: observe.VerdictRefused, answer: o, judged: x.judged, queued: l.queue.len(), running: l.running}
	if rival := l.inflight[x.reqID]; rival != nil && rival.session == x.session {
		l.finished.counts.Conflicts++
		d.verdict, d.answer = observe.VerdictConflict, conflict()
	}
	return d
}

// roomLocked lets d stand if there is room for x to wait.
func (l *ledger) roomLocked(x *execution, d decision) decision {
	switch {
	case l.draining, l.closed && x.state != observe.StateWaiting: // what waits was let in before
		return decision{verdict: observe.VerdictBusy, answer: busy("draining")}
	case d.verdict == observe.VerdictRun && l.running < l.slots:
		return d
	case d.verdict == observe.VerdictRun && l.queue.len() >= queueLen:
		return decision{verdict: observe.VerdictBusy, answer: busy("queue full")}
	case l.waiting+x.size > queueBytes:
		return decision{verdict: observe.VerdictBusy, answer: busy("queue bytes")}
	}
	return d
}

// finish records how x ended, before anybody is told, and gives its slot to the
// next in the queue. An heir, which had waited behind x, is admitted afresh; its
// first verdict has been reported when waited is closed.
func (l *ledger) finish(x *execution, o outcome) (next, heir *execution, waited <-chan struct{}, d decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetLocked(x, o)
	l.running--
	if l.queue.len() > 0 {
		next = l.queue.pop()
		next.state = observe.StateSpawning
		l.waiting -= next.size
		l.running++
	}
	if heir, x.heir = x.heir, nil; heir != nil {
		l.waiting -= heir.size
		waited, heir.judged = heir.judged, make(chan struct{})
		if o.kind == observe.OutcomeUncontained {
			l.totals.Refused++
			d = decision{verdict: observe.VerdictRefused, answer: o, judged: heir.judged}
		} else {
			d = l.admitLocked(heir)
		}
	}
	l.checkIdleLocked()
	return next, heir, waited, d
}

// forgetLocked takes x out of what is in flight, and into dedup if a redelivery
// is to be answered from there.
func (l *ledger) forgetLocked(x *execution, o outcome) {
	if o.kind == observe.OutcomeLost || o.by == observe.EndedByDisconnect {
		x.session.lost++
	}
	if l.inflight[x.reqID] == x {
		delete(l.inflight, x.reqID)
	}
	if o.remembered() {
		l.finished.remember(x.reqID, x.fingerprint, o, x.exec.Trace)
	}
	l.countLocked(o)
}

func (l *ledger) countLocked(o outcome) {
	switch o.kind {
	case observe.OutcomeTimeout:
		l.totals.Timeouts++
	case observe.OutcomeAbort:
		l.totals.Aborts++
	case observe.OutcomeRefused:
		l.totals.Refused++
	}
}

// drop takes out what of s has not begun, because s is over. What runs ends by
// itself, for its context is the session's, and may have done so by now: lost
// counts all three.
func (l *ledger) drop(s *session, o outcome) (unbegun []*execution, lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ended := s.lost
	unbegun, running := l.dropLocked(s, o)
	return unbegun, ended + len(unbegun) + running
}

// dropLocked also tells how many execs of s run. A nil s is every session.
func (l *ledger) dropLocked(s *session, o outcome) (unbegun []*execution, running int) {
	mine := func(x *execution) bool { return s == nil || x.session == s }
	for _, x := range l.queue.all() {
		if mine(x) {
			l.waiting -= x.size
			l.forgetLocked(x, o)
			unbegun = append(unbegun, x)
		}
	}
	l.queue.remove(mine)
	for _, x := range l.inflight {
		if heir := x.heir; heir != nil && mine(heir) {
			x.heir = nil
			l.waiting -= heir.size
			l.countLocked(o)
			unbegun = append(unbegun, heir)
		}
		if x.state != observe.StateQueued && mine(x) {
			running++
		}
	}
	l.checkIdleLocked()
	return unbegun, running
}

// drain refuses everything new from now on and takes out what has not begun.
// The channel is closed when nothing is in flight any more.
func (l *ledger) drain() (unbegun []*execution, running int, idle <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draining = true
	l.idle = make(chan struct{})
	unbegun, running = l.dropLocked(nil, busy("draining"))
	return unbegun, running, l.idle
}

func (l *ledger) checkIdleLocked() {
	if l.idle == nil || len(l.inflight) > 0 {
		return
	}
	select {
	case <-l.idle:
	default:
		close(l.idle)
	}
}

// executions returns what is in flight, for cancelling it.
func (l *ledger) executions() []*execution {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*execution, 0, len(l.inflight))
	for _, x := range l.inflight {
		all = append(all, x)
	}
	return all
}

// setState says where x stands.
func (l *ledger) setState(x *execution, s observe.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x.state = s
}
