package daemon

import (
	"errors"
	"testing"

	"execworker/daemon/observe"
	sandboxv1 "execworker/proto/sandbox/v1"
)

// newX is an execution that only the ledger sees.
func newX(s *session, reqID uint64, command string) *execution {
	req := &sandboxv1.Exec{ReqId: reqID, Command: command}
	return &execution{reqID: reqID, session: s, fingerprint: fingerprintOf(req), size: len(command), judged: make(chan struct{})}
}

func wantVerdict(t *testing.T, d decision, verdict observe.Verdict, message string) {
	t.Helper()
	if d.verdict != verdict || d.answer.message != message {
		t.Errorf("verdict %s %q, want %s %q", d.verdict, d.answer.message, verdict, message)
	}
}

var exited = outcome{kind: observe.OutcomeExit, code: 7}

func TestAdmissionOfAReqIDInFlight(t *testing.T) {
	l, s := newLedger(1), &session{}
	wantVerdict(t, l.admit(newX(s, 1, "a")), observe.VerdictRun, "")
	wantVerdict(t, l.admit(newX(s, 1, "a")), observe.VerdictJoin, "")
	wantVerdict(t, l.admit(newX(s, 1, "b")), observe.VerdictConflict, "req_id conflict: another exec is in flight under this req_id")
}

func TestAdmissionOfAFinishedReqID(t *testing.T) {
	for _, reqID := range []uint64{0, 1, 1<<64 - 1} {
		l, s := newLedger(1), &session{}
		x := newX(s, reqID, "a")
		l.admit(x)
		l.finish(x, exited)
		d := l.admit(newX(s, reqID, "a"))
		wantVerdict(t, d, observe.VerdictReplay, "")
		if d.answer != exited {
			t.Errorf("replayed %+v, want %+v", d.answer, exited)
		}
		other := newX(s, reqID, "b")
		d = l.admit(other)
		wantVerdict(t, d, observe.VerdictRun, "")
		if !d.collided || !other.collided {
			t.Error("the collision is not reported")
		}
		l.finish(other, outcome{kind: observe.OutcomeExit, code: 8})
		if d = l.admit(newX(s, reqID, "b")); d.answer.code != 8 {
			t.Errorf("replayed %+v, want what finished last", d.answer)
		}
	}
}

func TestOnlyExitsAndTimeoutsAreRemembered(t *testing.T) {
	tests := map[observe.Outcome]observe.Verdict{
		observe.OutcomeExit:        observe.VerdictReplay,
		observe.OutcomeTimeout:     observe.VerdictReplay,
		observe.OutcomeSignal:      observe.VerdictRun,
		observe.OutcomeAbort:       observe.VerdictRun,
		observe.OutcomeSpawnError:  observe.VerdictRun,
		observe.OutcomeRefused:     observe.VerdictRun,
		observe.OutcomeLost:        observe.VerdictRun,
		observe.OutcomeDrained:     observe.VerdictRun,
		observe.OutcomeUncontained: observe.VerdictRun,
	}
	for kind, verdict := range tests {
		l, s := newLedger(1), &session{}
		x := newX(s, 1, "a")
		l.admit(x)
		l.finish(x, outcome{kind: kind})
		if d := l.admit(newX(s, 1, "a")); d.verdict != verdict {
			t.Errorf("after %s: %s, want %s", kind, d.verdict, verdict)
		}
	}
}

func TestQueueIsBoundedInLengthAndBytes(t *testing.T) {
	l, s := newLedger(1), &session{}
	for i := range uint64(1 + queueLen) {
		wantVerdict(t, l.admit(newX(s, i, "a")), observe.VerdictRun, "")
	}
	wantVerdict(t, l.admit(newX(s, 1000, "a")), observe.VerdictBusy, "busy: queue full")

	l = newLedger(1)
	l.admit(newX(s, 0, "a"))
	big := newX(s, 1, "a")
	big.size = queueBytes
	wantVerdict(t, l.admit(big), observe.VerdictRun, "")
	wantVerdict(t, l.admit(newX(s, 2, "a")), observe.VerdictBusy, "busy: queue bytes")
	l.abort(1, 0, s, observe.AbortRequested{})
	wantVerdict(t, l.admit(newX(s, 2, "a")), observe.VerdictRun, "")
}

func TestARefusalIsNotRemembered(t *testing.T) {
	l, s := newLedger(1), &session{}
	first := newX(s, 0, "a")
	l.admit(first)
	for i := range uint64(queueLen) {
		l.admit(newX(s, i+1, "a"))
	}
	wantVerdict(t, l.admit(newX(s, 1000, "a")), observe.VerdictBusy, "busy: queue full")
	l.finish(first, exited)
	wantVerdict(t, l.admit(newX(s, 1000, "a")), observe.VerdictRun, "")
}

func TestQueueIsFirstInFirstOut(t *testing.T) {
	l, s := newLedger(1), &session{}
	all := []*execution{newX(s, 0, "a"), newX(s, 1, "a"), newX(s, 2, "a")}
	for i, x := range all {
		if d := l.admit(x); d.start != (i == 0) {
			t.Errorf("exec %d starts: %v", i, d.start)
		}
	}
	for i, x := range all[:2] {
		if next, _, _, _ := l.finish(x, exited); next != all[i+1] {
			t.Errorf("after exec %d comes %v", i, next)
		}
	}
	if next, _, _, _ := l.finish(all[2], exited); next != nil {
		t.Errorf("after the last comes %v", next)
	}
	if d := l.admit(newX(s, 3, "a")); !d.start {
		t.Error("the slot was not freed")
	}
}

func TestRedeliveryWaitsForADyingRun(t *testing.T) {
	tests := []struct {
		name    string
		outcome outcome
		verdict observe.Verdict
		message string
	}{
		{"that is lost", outcome{kind: observe.OutcomeLost}, observe.VerdictRun, ""},
		{"that had exited by itself", exited, observe.VerdictReplay, ""},
		{"that is not contained", notContained(2), observe.VerdictRefused, notContained(2).message},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l, before, now := newLedger(1), &session{}, &session{}
			dying := newX(before, 1, "a")
			l.admit(dying)
			l.drop(before, outcome{kind: observe.OutcomeLost})
			heir := newX(now, 1, "a")
			wantVerdict(t, l.admit(heir), observe.VerdictWait, "")
			wantVerdict(t, l.admit(newX(now, 1, "a")), observe.VerdictJoin, "")
			if d := l.admit(newX(now, 1, "b")); d.verdict != observe.VerdictConflict {
				t.Errorf("another exec beside the waiting one: %s", d.verdict)
			}
			first := heir.judged
			_, got, waited, d := l.finish(dying, test.outcome)
			if got != heir || waited != first || d.judged == first || d.judged != heir.judged {
				t.Fatalf("heir is %v; its two verdicts must have a channel each", got)
			}
			wantVerdict(t, d, test.verdict, test.message)
			if l.waiting != 0 {
				t.Errorf("%d bytes still wait", l.waiting)
			}
		})
	}
}

func TestDropTakesOutWhatHasNotBegun(t *testing.T) {
	l, s, other := newLedger(2), &session{}, &session{}
	l.admit(newX(s, 1, "a"))
	l.admit(newX(other, 2, "a"))
	mine, others := newX(s, 3, "a"), newX(other, 4, "a")
	l.admit(mine)
	l.admit(others)
	unbegun, lost := l.drop(s, outcome{kind: observe.OutcomeLost})
	if len(unbegun) != 1 || unbegun[0] != mine || lost != 2 {
		t.Errorf("dropped %v, %d are lost", unbegun, lost)
	}
	if left := l.queue.all(); len(left) != 1 || left[0] != others {
		t.Errorf("the queue is %v", left)
	}
}

// What runs is killed when its session ends, and that may be done before the
// session gets to drop the rest.
func TestDropCountsWhatWasLostBeforeIt(t *testing.T) {
	l, s := newLedger(3), &session{}
	outcomes := []outcome{{kind: observe.OutcomeLost}, exited, {kind: observe.OutcomeUncontained, by: observe.EndedByDisconnect}}
	for i, o := range outcomes {
		x := newX(s, uint64(i), "a")
		l.admit(x)
		l.finish(x, o)
	}
	l.admit(newX(s, 4, "a"))
	if _, lost := l.drop(s, outcome{kind: observe.OutcomeLost}); lost != 3 {
		t.Errorf("%d are lost, want 3: two that have ended and one that runs", lost)
	}
}

func TestDrainRefusesNewExecsAndTellsWhenIdle(t *testing.T) {
	l, s := newLedger(1), &session{}
	running, queued := newX(s, 1, "a"), newX(s, 2, "a")
	l.admit(running)
	l.admit(queued)
	unbegun, n, idle := l.drain()
	if len(unbegun) != 1 || unbegun[0] != queued || n != 1 {
		t.Fatalf("took out %v, %d run", unbegun, n)
	}
	wantVerdict(t, l.admit(newX(s, 3, "a")), observe.VerdictBusy, "busy: draining")
	wantVerdict(t, l.admit(newX(s, 1, "a")), observe.VerdictJoin, "")
	select {
	case <-idle:
		t.Error("idle while one runs")
	default:
	}
	l.finish(running, exited)
	<-idle
	wantVerdict(t, l.admit(newX(s, 1, "a")), observe.VerdictReplay, "")
}

func TestAnExitWithoutACodeIsNotRemembered(t *testing.T) {
	l, s := newLedger(1), &session{}
	x := newX(s, 1, "a")
	l.admit(x)
	l.finish(x, outcome{kind: observe.OutcomeExit, code: -1})
	wantVerdict(t, l.admit(newX(s, 1, "a")), observe.VerdictRun, "")
}

func TestAFrameThatCannotBeRunIsRefusedOrInConflict(t *testing.T) {
	l, s := newLedger(1), &session{}
	bad := refused(errors.New("invalid frame"))
	wantVerdict(t, l.refuse(newX(s, 1, "a"), bad), observe.VerdictRefused, "invalid frame")
	l.admit(newX(s, 1, "a"))
	wantVerdict(t, l.refuse(newX(s, 1, "a"), bad), observe.VerdictConflict, conflict().message)
	wantVerdict(t, l.refuse(newX(&session{}, 1, "a"), bad), observe.VerdictRefused, "invalid frame")
}

func TestDedupForgetsTheLeastRecentlyUsed(t *testing.T) {
	l, s := newLedger(1), &session{}
	for id := range uint64(dedupSize + 1) {
		x := newX(s, id, "a")
		l.admit(x)
		l.finish(x, exited)
		if id == dedupSize-1 {
			l.admit(newX(s, 0, "a")) // a replay uses it
		}
	}
	wantVerdict(t, l.admit(newX(s, 0, "a")), observe.VerdictReplay, "")
	if d := l.admit(newX(s, 1, "a")); d.verdict != observe.VerdictRun || d.collided {
		t.Errorf("the oldest: %s, collided %v", d.verdict, d.collided)
	}
	if got := l.finished.snapshot(); len(got.Entries) != dedupSize || got.Evictions != 1 || got.Entries[0].ID.ID != "0" {
		t.Errorf("%d entries, %d evicted, newest %s", len(got.Entries), got.Evictions, got.Entries[0].ID)
	}
}

func TestClosedAdmissionLetsInWhatWaited(t *testing.T) {
	l, before, now := newLedger(1), &session{}, &session{}
	dying := newX(before, 1, "a")
	l.admit(dying)
	heir := newX(now, 1, "a")
	wantVerdict(t, l.admit(heir), observe.VerdictWait, "")
	l.setClosed(true, "")
	wantVerdict(t, l.admit(newX(now, 1, "a")), observe.VerdictJoin, "")
	_, _, _, d := l.finish(dying, outcome{kind: observe.OutcomeLost})
	wantVerdict(t, d, observe.VerdictRun, "")
	later := &session{}
	wantVerdict(t, l.admit(newX(later, 1, "a")), observe.VerdictBusy, "busy: draining") // would have to wait
}
