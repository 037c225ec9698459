package daemon

import (
	"testing"

	"execworker/daemon/observe"
)

func TestAbortOfAQueuedExecFreesItsPlace(t *testing.T) {
	l, s := newLedger(1), &session{}
	l.admit(newX(s, 0, "a"))
	queued := newX(s, 1, "a")
	l.admit(queued)
	if x, result := l.abort(1, 0, s, observe.AbortRequested{}); x != queued || result != observe.AbortDequeued {
		t.Fatalf("aborted %v, %s", x, result)
	}
	if x, result := l.abort(1, 0, s, observe.AbortRequested{}); x != nil || result != observe.AbortNone {
		t.Errorf("it can be aborted twice: %s", result)
	}
	if l.queue.len() != 0 || l.waiting != 0 {
		t.Errorf("%d in the queue with %d bytes", l.queue.len(), l.waiting)
	}
}

func TestAbortReachesOnlyItsOwnSession(t *testing.T) {
	l, s := newLedger(1), &session{}
	l.admit(newX(s, 1, "a"))
	if x, result := l.abort(1, 0, &session{}, observe.AbortRequested{}); x != nil || result != observe.AbortNone {
		t.Errorf("another session's abort reached the exec: %s", result)
	}
	if x, result := l.abort(1, 0, nil, observe.AbortRequested{}); x == nil || result != observe.AbortKilled {
		t.Errorf("the operator's abort did not: %s", result)
	}
}

func TestAbortMeetsTheWaitingExec(t *testing.T) {
	l, before, now := newLedger(1), &session{}, &session{}
	dying := newX(before, 1, "a")
	l.admit(dying)
	heir := newX(now, 1, "a")
	l.admit(heir)
	if x, result := l.abort(1, 0, now, observe.AbortRequested{}); x != heir || result != observe.AbortDequeued {
		t.Errorf("aborted %v, %s; want the waiting one", x, result)
	}
	if _, got, _, _ := l.finish(dying, outcome{kind: observe.OutcomeLost}); got != nil {
		t.Error("the aborted one is admitted")
	}
}

// Under one req_id a run of an earlier session can be dying, Seq 1 here, and one
// of this session waiting, Seq 2.
func TestAbortOfOneExecutionLeavesTheOthersAlone(t *testing.T) {
	tests := []struct {
		name   string
		heir   bool
		seq    uint64
		want   observe.AbortResult
		wantOf uint64 // the execution that is stopped; 0 is none
	}{
		{"whatever is in flight", false, 0, observe.AbortKilled, 1},
		{"the one in flight", false, 1, observe.AbortKilled, 1},
		{"one that has ended", false, 9, observe.AbortOther, 0},
		{"whatever waits", true, 0, observe.AbortDequeued, 2},
		{"the one that waits", true, 2, observe.AbortDequeued, 2},
		{"the one that it waits for", true, 1, observe.AbortKilled, 1},
		{"neither", true, 9, observe.AbortOther, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := newLedger(1)
			for seq := range uint64(2) {
				x := newX(&session{}, 1, "a")
				x.exec.Seq = seq + 1
				if seq == 0 || test.heir {
					l.admit(x)
				}
			}
			x, result := l.abort(1, test.seq, nil, observe.AbortRequested{})
			if result != test.want {
				t.Errorf("result is %s, want %s", result, test.want)
			}
			if test.wantOf == 0 {
				if x != nil {
					t.Errorf("execution %d is stopped", x.exec.Seq)
				}
			} else if x == nil || x.exec.Seq != test.wantOf || x.abort == nil {
				t.Errorf("stopped is %v, want execution %d with the wish in it", x, test.wantOf)
			}
			rest := l.inflight[1]
			if rest == nil || test.heir && (rest.heir == nil) != (test.wantOf == 2) {
				t.Error("the other one is not as it was")
			}
			if test.wantOf != 1 && rest != nil && rest.abort != nil {
				t.Error("the wish is in the other one too")
			}
		})
	}
}

func TestAbortOfAnotherExecutionIsNoAbort(t *testing.T) {
	l := newLedger(1)
	x := newX(&session{}, 1, "a")
	x.exec.Seq = 5
	if _, result := l.abort(1, 5, nil, observe.AbortRequested{}); result != observe.AbortNone {
		t.Errorf("before there is any: %s", result)
	}
	l.admit(x)
	l.abort(1, 4, nil, observe.AbortRequested{})
	if x.abort != nil {
		t.Error("it bears the wish to stop another one")
	}
	l.finish(x, exited)
	if _, result := l.abort(1, 5, nil, observe.AbortRequested{}); result != observe.AbortNone {
		t.Errorf("once it has finished: %s", result)
	}
}
