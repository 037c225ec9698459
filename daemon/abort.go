package daemon

import (
	"time"

	"execworker/daemon/observe"
)

// Abort stops what is in flight under id as an abort of the relay would: any
// execution if seq is 0, else only the one with that Seq. It does not wait for
// the tree to be gone. The receipt names by and keeps the reason, unless the
// execution ends by itself first.
func (d *Daemon) Abort(id observe.ID, seq uint64, by observe.EndedBy, reason string) observe.AbortResult {
	reqID, ok := sandboxReqID(id)
	if !ok {
		return observe.AbortNone
	}
	return d.abort(reqID, seq, nil, observe.AbortRequested{By: by, Reason: reason, At: time.Now()})
}

// AbortSurvivors begins to sweep what an execution left, kept or not contained,
// and does not wait for it. It is false if nothing of it is known to be left: a
// tree is looked at some 50 ms after its main has ended. The receipt stays as it
// is; SurvivorsGone tells when it is done.
func (d *Daemon) AbortSurvivors(seq uint64) bool { return d.survivors.abort(seq) }

// abort stops what is in flight on this stream under reqID, if anything is.
func (s *session) abort(reqID uint64) {
	wish := observe.AbortRequested{By: observe.EndedByCaller, At: time.Now()}
	if s.d.abort(reqID, 0, s, wish) == observe.AbortNone {
		s.d.observer.Event(s.ctx, observe.FrameIgnored{Session: s.number, Reason: "abort of a req_id that is not in flight"})
	}
}

// abort stops an exec of s, or of any session where s is nil.
func (d *Daemon) abort(reqID, seq uint64, s *session, wish observe.AbortRequested) observe.AbortResult {
	x, result := d.ledger.abort(reqID, seq, s, wish)
	if x == nil {
		return result
	}
	wish.Exec = x.exec
	cause := errAborted{wish}
	if result == observe.AbortDequeued {
		<-x.judged
		x.reportAbort(cause)
		x.conclude(x.stopped(cause))
	} else {
		x.cancel(cause) // the slot reports it, if it comes in time
	}
	return result
}

// abort records the wish to stop an exec, for s only what came on s, for nil
// whatever is in flight; of two under one req_id it is the one that waits. With
// a seq it is that execution or none. x is the execution, nil if there is none.
// One that is dequeued is out of the ledger, and the caller answers it.
func (l *ledger) abort(reqID, seq uint64, s *session, wish observe.AbortRequested) (x *execution, result observe.AbortResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	result = observe.AbortNone
	meant := func(x *execution) bool {
		if x == nil || s != nil && x.session != s {
			return false
		}
		if seq != 0 && x.exec.Seq != seq {
			result = observe.AbortOther
			return false
		}
		return true
	}
	x = l.inflight[reqID]
	if x == nil {
		return nil, result
	}
	if heir := x.heir; meant(heir) {
		x.heir = nil
		l.waiting -= heir.size
		l.totals.Aborts++
		heir.abort = &wish
		return heir, observe.AbortDequeued
	}
	if !meant(x) {
		return nil, result
	}
	if x.abort == nil {
		x.abort = &wish
	}
	if x.state != observe.StateQueued {
		return x, observe.AbortKilled
	}
	l.queue.remove(func(q *execution) bool { return q == x })
	l.waiting -= x.size
	l.forgetLocked(x, outcome{kind: observe.OutcomeAbort})
	l.checkIdleLocked()
	return x, observe.AbortDequeued
}
