package admin

import (
	"slices"
	"strings"
	"testing"
	"time"

	"execworker/daemon/observe"
)

// begun is an exec that has had a slot for 40 s.
func begun(id uint64, state observe.State, changes ...func(*observe.Inflight)) observe.Inflight {
	x := observe.Inflight{Exec: fakeExec(id), State: state, PID: 10, DequeuedAt: ago(40 * time.Second), StartedAt: ago(40 * time.Second)}
	for _, change := range changes {
		change(&x)
	}
	return x
}

func wantSentence(t *testing.T, got why, kind string, says ...string) {
	t.Helper()
	if got.kind != kind {
		t.Errorf("kind %s, want %s: %q", got.kind, kind, got.sentence)
	}
	for _, want := range says {
		if !strings.Contains(got.sentence, want) {
			t.Errorf("%q does not say %q", got.sentence, want)
		}
	}
	wantPlain(t, got)
}

func TestExecThatHasNotBegunIsExplained(t *testing.T) {
	queued := func(id uint64, position int) observe.Inflight {
		return observe.Inflight{Exec: fakeExec(id), State: observe.StateQueued, QueuePosition: position}
	}
	five := []observe.Inflight{
		begun(11, observe.StateRunning), begun(12, observe.StateRunning), begun(13, observe.StateDraining), begun(14, observe.StateKilling), begun(15, observe.StateRunning), queued(20, 1),
	}
	dying := begun(30, observe.StateKilling, func(x *observe.Inflight) { x.Exec.Seq, x.PID = 1, 99 })
	for _, c := range []struct {
		name     string
		x        observe.Inflight
		all      []observe.Inflight
		slots    int
		kind     string
		sentence string
		evidence int
	}{
		{"behind five", queued(21, 2), five, 5, whyQueued, "queued for 1m0s, 2nd in line: all 5 slots are taken, by req_id 11 (40s), 12 (40s), 13 (40s), 14 (40s) and 1 more", 5},
		{"behind one", queued(21, 1), five[:1], 1, whyQueued, "queued for 1m0s, next in line: the only slot is taken by req_id 11 (40s)", 1},
		{"third", queued(21, 3), five[:2], 2, whyQueued, "queued for 1m0s, 3rd in line: all 2 slots are taken, by req_id 11 (40s), 12 (40s)", 2},
		{"eleventh", queued(21, 11), five[:1], 1, whyQueued, "queued for 1m0s, 11th in line: the only slot is taken by req_id 11 (40s)", 1},
		{"a slot is free", queued(21, 1), five[:1], 2, whyQueued, "queued for 1m0s, next in line: a slot is about to take the next", 1},
		{"an heir", observe.Inflight{Exec: fakeExec(30), State: observe.StateWaiting}, []observe.Inflight{dying}, 4, whyWaiting, "waits for 1m0s until the earlier run of this req_id, from a session that is over, is gone", 1},
		{"spawning", begun(1, observe.StateSpawning), nil, 4, whySpawning, "being started for 40s: its workspace and its process are being made", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := situation{now: fixtureNow, all: c.all, status: observe.Status{CapacityMax: c.slots}, show: asItIs}.explain(c.x, nil, operator)
			wantSentence(t, got, c.kind)
			if got.sentence != c.sentence || len(got.evidence) != c.evidence {
				t.Errorf("%q, with %q", got.sentence, got.evidence)
			}
		})
	}
}

func aborted(by observe.EndedBy) func(*observe.Inflight) {
	return func(x *observe.Inflight) { x.Abort = &observe.AbortRequested{By: by} }
}

func timeout(d time.Duration) func(*observe.Inflight) {
	return func(x *observe.Inflight) { x.Exec.Timeout = d }
}

func blocked(x *observe.Inflight) { x.SendWaiting, x.SendBlocked = true, 12*time.Second }

func mainEnded(x *observe.Inflight) { x.MainEndedAt = ago(time.Second) }

func TestExecThatIsBeingKilledIsExplained(t *testing.T) {
	attached := observe.Status{Attached: true, Session: 3} // as fakeExec's
	for _, c := range []struct {
		name   string
		change []func(*observe.Inflight)
		status observe.Status
		look   *observe.Inspection
		unseen string
		kind   string
		says   string
	}{
		{"aborted by its caller", []func(*observe.Inflight){aborted(observe.EndedByCaller)}, attached, nil, unseenGone, whyKilling, "being killed for 2.0s (aborted by its caller); no process of it was found"},
		{"aborted by an operator", []func(*observe.Inflight){aborted(observe.EndedByAdmin)}, attached, nil, unseenTime, whyKilling, "(aborted by an operator), not yet over"},
		{"timed out", []func(*observe.Inflight){timeout(30 * time.Second)}, attached, nil, unseenGone, whyKilling, "(it outlived its timeout of 30s)"},
		{"after main's end no timeout counts", []func(*observe.Inflight){timeout(30 * time.Second), mainEnded}, observe.Status{Attached: true, Session: 4}, nil, unseenGone, whyKilling, "(its session, number 3, is over)"},
		{"another session", nil, observe.Status{Attached: true, Session: 4}, nil, unseenGone, whyKilling, "(its session, number 3, is over)"},
		{"no session", nil, observe.Status{Session: 3}, nil, unseenGone, whyKilling, "(its session, number 3, is over)"},
		{"stopping", nil, observe.Status{Attached: true, Session: 3, Draining: true}, nil, unseenGone, whyKilling, "(the worker is stopping)"},
		{"who is last", nil, attached, look(proc(10, 1, "bash", "Z", "", ""), proc(11, 10, "a", "S", "", ""), proc(12, 10, "dd", "D", "", "")), "", whyKilling, "not yet proven gone: pid 12 dd is in state D (sleeps, uninterruptible); and 2 more"},
		{"who lives", nil, attached, look(proc(10, 1, "bash", "Z", "", ""), proc(11, 10, "a", "S", "", "")), "", whyKilling, "pid 11 a is in state S"},
		{"who is not reaped", nil, attached, look(proc(10, 1, "bash", "Z", "", "")), "", whyKilling, "pid 10 bash is in state Z (ended, not reaped)"},
		{"unreadable", nil, attached, unread(look(), "the process table: no"), "", whyKilling, "not yet over; its processes cannot be read here (the process table: no)"},
		{"gone, but the relay does not read", []func(*observe.Inflight){blocked}, attached, nil, unseenGone, whySendBlocked, "its output waits, because the relay does not read: 12s"},
		{"alive, and the relay does not read", []func(*observe.Inflight){blocked}, attached, look(proc(10, 1, "a", "D", "", "")), "", whyKilling, "not yet proven gone"},
		{"not seen, and the relay does not read", []func(*observe.Inflight){blocked}, attached, nil, unseenTime, whyKilling, "the relay does not read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := begun(1, observe.StateKilling, append(c.change, func(x *observe.Inflight) { x.KillBeganAt = ago(2 * time.Second) })...)
			got := situation{now: fixtureNow, status: c.status, show: asItIs, unseen: c.unseen}.explain(x, c.look, operator)
			wantSentence(t, got, c.kind, "being killed for 2.0s", c.says)
		})
	}
}

func holds(pid int, command, stream string, changes ...func(*observe.PipeHolder)) observe.PipeHolder {
	h := observe.PipeHolder{Process: observe.Process{PID: pid, Name: "node", StartedAt: ago(41 * time.Second)}, Command: command, Stream: stream, Writes: true, Member: true, Session: 10}
	for _, change := range changes {
		change(&h)
	}
	return h
}

func TestExecWhoseOutputDoesNotEndIsExplained(t *testing.T) {
	pipes := func(all ...observe.PipeHolder) *observe.Inspection { return &observe.Inspection{Pipes: all} }
	leads := func(h *observe.PipeHolder) { h.Session = h.Process.PID }
	reads := func(h *observe.PipeHolder) { h.Writes = false }
	stranger := func(h *observe.PipeHolder) { h.Member = false }
	for _, c := range []struct {
		name   string
		look   *observe.Inspection
		unseen string
		change func(*observe.Inflight)
		kind   string
		says   string
	}{
		{"held", pipes(holds(812, "node server.js", "stdout", leads)), "", nil, whyHeld, "still being read: stdout is held by pid 812 node server.js, in a session of its own, started 41s ago"},
		{"both streams", pipes(holds(812, "", "stdout"), holds(812, "", "stderr")), "", nil, whyHeld, ": stdout and stderr are held by pid 812 node, started 41s ago"},
		{"by two", pipes(holds(812, "a b", "stdout"), holds(813, "c", "stderr")), "", nil, whyHeld, "stdout is held by pid 812 a b, started 41s ago; stderr is held by pid 813 c"},
		{"by three", pipes(holds(1, "a", "stdout"), holds(2, "b", "stdout"), holds(3, "c", "stdout")), "", nil, whyHeld, "; and 1 more"},
		{"a stranger", pipes(holds(812, "", "stdout", stranger)), "", nil, whyHeld, "which is not of this exec"},
		{"a long command", pipes(holds(812, strings.Repeat("x", 100), "stdout")), "", nil, whyHeld, strings.Repeat("x", 57) + "..."},
		{"who reads holds no output", pipes(holds(812, "", "stdout", reads)), "", nil, whyHeld, "no process was found that holds it open"},
		{"no files were looked at", look(proc(10, 1, "bash", "Z", "", ""), proc(11, 1, "node", "S", "", "")), "", nil, whyHeld, "; still alive: pid 11 node"},
		{"unreadable", unread(look(), "the open files of pid 9: permission denied"), "", nil, whyHeld, "by whom it is held cannot be read here (the open files of pid 9: permission denied)"},
		{"nothing there", nil, unseenGone, nil, whyHeld, "no process was found that holds it open"},
		{"no time", nil, unseenTime, nil, string(observe.StateDraining), "there was no time to look at its processes"},
		{"the relay does not read", pipes(holds(812, "", "stdout")), "", blocked, whySendBlocked, "main ended 1.0s ago; its output waits, because the relay does not read: 12s of waiting so far"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := begun(1, observe.StateDraining, mainEnded)
			if c.change != nil {
				c.change(&x)
			}
			got := situation{now: fixtureNow, show: asItIs, unseen: c.unseen}.explain(x, c.look, operator)
			wantSentence(t, got, c.kind, "main ended 1.0s ago", c.says)
		})
	}
}

// One process is one line, and main, which leads a session always, is not said to
// have taken one of its own.
func TestHolderIsNamedOnce(t *testing.T) {
	main := func(h *observe.PipeHolder) { h.Session = 10 }
	seen := &observe.Inspection{Pipes: []observe.PipeHolder{
		holds(10, "a", "stdin", main), holds(10, "a", "stdout", main), holds(11, "b", "stdout"), holds(10, "a", "stderr", main),
	}}
	got := situation{now: fixtureNow, show: asItIs}.explain(begun(1, observe.StateRunning), seen, operator).evidence
	want := []string{"stdin, stdout and stderr are held by pid 10 a, started 41s ago", "stdout is held by pid 11 b, started 41s ago"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What processes do while the relay does not read comes of that, so it is no
// reason of its own.
func TestRelayThatDoesNotReadCountsMoreThanProcesses(t *testing.T) {
	got := situation{now: fixtureNow, show: asItIs}.explain(begun(1, observe.StateRunning, blocked), look(proc(10, 1, "yes", "S", "write", "pipe_write")), operator)
	wantSentence(t, got, whySendBlocked, "running for 40s; its output waits, because the relay does not read: 12s of waiting so far")
}
