package admin

import (
	"strings"
	"testing"
	"time"

	"execworker/daemon/observe"
)

// proc makes a process of a tree. Main is pid 10.
func proc(pid, ppid int, name, state, call, channel string, changes ...func(*observe.ProcessDetail)) observe.ProcessDetail {
	p := observe.ProcessDetail{
		Process: observe.Process{PID: pid, PPID: ppid, Name: name, State: state, WaitsIn: channel, StartedAt: ago(time.Minute - time.Duration(pid)*time.Millisecond)},
		Main:    pid == 10, Group: 10, Session: 10, Threads: 1, Call: call, FD: -1,
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func on(fd int, file string) func(*observe.ProcessDetail) {
	return func(p *observe.ProcessDetail) { p.FD, p.File = fd, file }
}

func used(percent int) func(*observe.ProcessDetail) {
	return func(p *observe.ProcessDetail) { p.InWindow = time.Duration(percent) * time.Millisecond }
}

func threads(n int) func(*observe.ProcessDetail) {
	return func(p *observe.ProcessDetail) { p.Threads = n }
}

func heldBy(pid int, name string) func(*observe.ProcessDetail) {
	return func(p *observe.ProcessDetail) { p.LockHolder = observe.Process{PID: pid, Name: name} }
}

func look(all ...observe.ProcessDetail) *observe.Inspection {
	return &observe.Inspection{At: fixtureNow, Window: 100 * time.Millisecond, Processes: all}
}

// waitsForChild is a bash that waits for its foreground child.
var waitsForChild = proc(10, 1, "bash", "S", "wait4", "do_wait")

// Each row is a tree and what an operator is told of it.
func TestRunningExecIsExplained(t *testing.T) {
	for _, c := range []struct {
		name string
		look *observe.Inspection
		kind string
		says string
	}{
		{"sleeping itself", look(proc(10, 1, "sleep", "S", "clock_nanosleep", "hrtimer_nanosleep")), whySleeping, "main, pid 10 sleep, sleeps"},
		{"sleeping in a child", look(waitsForChild, proc(11, 10, "sleep", "S", "clock_nanosleep", "hrtimer_nanosleep")), whySleeping, "pid 11 sleep sleeps (clock_nanosleep, hrtimer_nanosleep), and main waits for it"},
		{"three deep", look(waitsForChild, proc(11, 10, "make", "S", "wait4", "do_wait"), proc(12, 11, "cc1", "R", "", "", used(97))), whyCPU, "pid 12 cc1 computes: it used 97 %"},
		{"computing itself", look(proc(10, 1, "bash", "R", "", "", used(99))), whyCPU, "main, pid 10 bash, computes"},
		{"ready for a CPU", look(proc(10, 1, "bash", "R", "", "")), whyCPU, "on a CPU or ready"},
		{"one thread of eight computes", look(proc(10, 1, "python3", "S", "futex", "futex_do_wait", threads(8), used(95))), whyCPU, "computes"},
		{"all threads wait", look(proc(10, 1, "python3", "S", "futex", "futex_do_wait", threads(8))), whySleeping, "8 threads"},
		{"stopped", look(proc(10, 1, "bash", "T", "", "do_signal_stop")), whyStopped, "SIGCONT"},
		{"traced", look(proc(10, 1, "bash", "t", "", "ptrace_stop")), whyStopped, "tracer"},
		{"a stopped child counts more than a busy one", look(waitsForChild, proc(11, 10, "a", "R", "", "", used(90)), proc(12, 10, "b", "T", "", "")), whyStopped, "pid 12 b"},
		{"disk", look(waitsForChild, proc(11, 10, "dd", "D", "write", "folio_wait")), whyDisk, "no signal ends"},
		{"disk counts more than computing", look(waitsForChild, proc(11, 10, "a", "R", "", "", used(90)), proc(12, 10, "b", "D", "", "io_schedule")), whyDisk, "pid 12 b"},
		{"terminal by file", look(proc(10, 1, "bash", "S", "read", "wait_woken", on(0, "/dev/pts/3"))), whyTerminal, "terminal (/dev/pts/3, fd 0)"},
		{"terminal by channel", look(proc(10, 1, "bash", "S", "", "n_tty_read")), whyTerminal, "terminal, where nobody types"},
		{"pipe read", look(proc(10, 1, "cat", "S", "read", "anon_pipe_read", on(0, "pipe:[812]"))), whyPipe, "read from pipe:[812] (fd 0), until somebody writes"},
		{"pipe read, no call", look(proc(10, 1, "cat", "S", "", "pipe_read")), whyPipe, "waits to read"},
		{"pipe write", look(proc(10, 1, "yes", "S", "write", "anon_pipe_write", on(1, "pipe:[813]"))), whyPipe, "write to pipe:[813] (fd 1)"},
		{"fifo", look(proc(10, 1, "cat", "S", "openat", "wait_for_partner")), whyPipe, "FIFO"},
		{"a pipeline names who is not waiting for another", look(waitsForChild, proc(11, 10, "sleep", "S", "clock_nanosleep", ""), proc(12, 10, "cat", "S", "read", "", on(0, "pipe:[1]")), proc(13, 10, "grep", "S", "read", "", on(0, "pipe:[2]"))), whySleeping, "pid 11 sleep"},
		{"a substitution is a read with a child", look(proc(10, 1, "bash", "S", "read", "anon_pipe_read", on(3, "pipe:[9]")), proc(11, 10, "curl", "S", "ppoll", "do_poll")), whySleeping, "pid 11 curl waits for events"},
		{"lock", look(proc(10, 1, "flock", "S", "flock", "locks_lock_inode_wait", on(3, "/tmp/l"))), whyLock, "file lock (/tmp/l, fd 3)"},
		{"lock with a holder", look(proc(10, 1, "flock", "S", "flock", "", on(3, "/tmp/l"), heldBy(99, "npm"))), whyLock, "(/tmp/l, fd 3), which pid 99 npm holds"},
		{"connect", look(proc(10, 1, "curl", "S", "connect", "inet_wait_for_connect", on(3, "socket:[5]"))), whySocket, "connection to be made"},
		{"accept", look(proc(10, 1, "nc", "S", "accept4", "inet_csk_accept", on(3, "socket:[5]"))), whySocket, "somebody to connect"},
		{"socket read", look(proc(10, 1, "nc", "S", "read", "wait_woken", on(3, "socket:[5]"))), whySocket, "read from socket:[5]"},
		{"recv", look(proc(10, 1, "nc", "S", "recvfrom", "wait_woken", on(3, "socket:[5]"))), whySocket, "receive from socket:[5]"},
		{"events", look(proc(10, 1, "node", "S", "epoll_wait", "ep_poll", on(5, "anon_inode:[eventpoll]"))), whySleeping, "waits for events (epoll_wait, ep_poll)"},
		{"a child that nobody waits for is not it", look(proc(10, 1, "sleep", "S", "clock_nanosleep", ""), proc(11, 10, "busy", "R", "", "", used(90))), whySleeping, "main, pid 10 sleep"},
		{"signal", look(proc(10, 1, "p", "S", "pause", "")), whySleeping, "waits for a signal (pause)"},
		{"a wait without a word for it", look(proc(10, 1, "p", "S", "syscall 999", "strange_wait")), whySleeping, `sleeps ("syscall 999", strange_wait)`},
		{"zombies are not it", look(waitsForChild, proc(11, 10, "dead", "Z", "", ""), proc(12, 10, "sleep", "S", "nanosleep", "")), whySleeping, "pid 12 sleep"},
		{"nothing but a state", look(proc(10, 1, "p", "S", "", "")), whyUnreadable, "where cannot be read here"},
		{"nothing at all", nil, whyUnreadable, "its processes cannot be read here"},
		{"a name that would drive a terminal", look(proc(10, 1, "\x1b[2J", "S", "nanosleep", "")), whySleeping, `pid 10 "\x1b[2J",`},
		{"a file that would forge a line", look(proc(10, 1, "cat", "S", "read", "", on(3, "/tmp/a\nreq_id 2: fine"))), whySleeping, `"/tmp/a\nreq_id 2: fine"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := observe.Inflight{Exec: fakeExec(1), State: observe.StateRunning, PID: 10, StartedAt: ago(41 * time.Second)}
			x.Exec.Timeout = 0
			got := situation{now: fixtureNow, show: func(s string) string { return s }}.explain(x, c.look, operator)
			if got.kind != c.kind || !strings.Contains(got.sentence, c.says) {
				t.Errorf("%s: %q", got.kind, got.sentence)
			}
			if !strings.HasPrefix(got.sentence, "running for 41s") || !strings.HasSuffix(got.sentence, "no output yet") {
				t.Errorf("%q does not say since when, or what came out", got.sentence)
			}
			wantPlain(t, got)
		})
	}
}

// wantPlain says that no terminal obeys what is said, and that it is one line.
func wantPlain(t *testing.T, w why) {
	t.Helper()
	for _, text := range append([]string{w.sentence}, w.evidence...) {
		for _, r := range text {
			if r < ' ' || r > '~' {
				t.Errorf("%q has %q in it", text, r)
			}
		}
	}
}

func TestExecThatDoesNotRunIsExplained(t *testing.T) {
	x := func(id uint64, state observe.State, change func(*observe.Inflight)) observe.Inflight {
		x := observe.Inflight{Exec: fakeExec(id), State: state, DequeuedAt: ago(40 * time.Second), StartedAt: ago(40 * time.Second)}
		if change != nil {
			change(&x)
		}
		return x
	}
	queued := func(id uint64, position int) observe.Inflight {
		return observe.Inflight{Exec: fakeExec(id), State: observe.StateQueued, QueuePosition: position}
	}
	five := []observe.Inflight{
		x(11, observe.StateRunning, nil), x(12, observe.StateRunning, nil), x(13, observe.StateDraining, nil), x(14, observe.StateKilling, nil), x(15, observe.StateRunning, nil), queued(20, 1),
	}
	dying := x(30, observe.StateKilling, func(x *observe.Inflight) { x.Exec.Seq, x.PID = 1, 99 })
	for _, c := range []struct {
		name  string
		x     observe.Inflight
		all   []observe.Inflight
		slots int
		look  *observe.Inspection
		kind  string
		says  []string
	}{
		{"queued behind five", queued(21, 2), five, 5, nil, whyQueued, []string{"2nd in line", "all 5 slots are taken, by req_id 11 (40s)", "and 1 more"}},
		{"queued behind one", queued(21, 1), five[:1], 1, nil, whyQueued, []string{"next in line", "the only slot is taken by req_id 11"}},
		{"third", queued(21, 3), five, 5, nil, whyQueued, []string{"3rd in line"}},
		{"eleventh", queued(21, 11), five, 5, nil, whyQueued, []string{"11th in line"}},
		{"an heir", observe.Inflight{Exec: fakeExec(30), State: observe.StateWaiting}, []observe.Inflight{dying}, 4, nil, whyWaiting, []string{"earlier run"}},
		{"spawning", x(1, observe.StateSpawning, nil), nil, 4, nil, whySpawning, []string{"being started for 40s"}},
		{"aborted", x(1, observe.StateKilling, func(x *observe.Inflight) {
			x.KillBeganAt, x.Abort = ago(2*time.Second), &observe.AbortRequested{By: observe.EndedByCaller}
		}), nil, 4, look(proc(11, 1, "dd", "D", "", "")), whyKilling, []string{"2.0s (aborted by caller)", "not yet proven gone: pid 11 dd is in state D"}},
		{"timed out", x(1, observe.StateKilling, func(x *observe.Inflight) { x.Exec.Timeout, x.KillBeganAt = 30*time.Second, ago(10*time.Second) }), nil, 4, nil, whyKilling, []string{"outlived its timeout of 30s"}},
		{"session gone", x(1, observe.StateKilling, func(x *observe.Inflight) { x.Exec.Timeout, x.KillBeganAt = 0, ago(10*time.Second) }), nil, 4, nil, whyKilling, []string{"session ended"}},
		{"the relay does not read", x(1, observe.StateRunning, func(x *observe.Inflight) { x.SendWaiting, x.SendBlocked = true, 12*time.Second }), nil, 4, look(proc(10, 1, "yes", "S", "write", "pipe_write")), whySendBlocked, []string{"the relay does not read", "12s"}},
		{"held", x(1, observe.StateDraining, func(x *observe.Inflight) { x.MainEndedAt = ago(time.Second) }), nil, 4, &observe.Inspection{Pipes: []observe.PipeHolder{{
			Process: observe.Process{PID: 812, Name: "node", StartedAt: ago(41 * time.Second)}, Command: "node server.js", Stream: "stdout", Writes: true, Session: 812, Member: true,
		}}}, whyHeld, []string{"main ended 1.0s ago", "stdout is held by pid 812 node server.js, in a session of its own, started 41s ago"}},
		{"held by a stranger", x(1, observe.StateDraining, func(x *observe.Inflight) { x.MainEndedAt = ago(time.Second) }), nil, 4, &observe.Inspection{Pipes: []observe.PipeHolder{{
			Process: observe.Process{PID: 812, Name: "node"}, Stream: "stdout", Writes: true,
		}}}, whyHeld, []string{"not of this exec"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := situation{now: fixtureNow, all: c.all, status: observe.Status{CapacityMax: c.slots}, show: func(s string) string { return s }}
			got := in.explain(c.x, c.look, operator)
			if got.kind != c.kind {
				t.Errorf("kind %s", got.kind)
			}
			for _, want := range c.says {
				if !strings.Contains(got.sentence, want) {
					t.Errorf("%q does not say %q", got.sentence, want)
				}
			}
			wantPlain(t, got)
		})
	}
}

func TestReceiptIsExplained(t *testing.T) {
	base := observe.Receipt{Exec: fakeExec(1), PID: 10, Phases: observe.Phases{Run: 41 * time.Second}}
	with := func(change func(*observe.Receipt)) observe.Receipt { r := base; change(&r); return r }
	for _, c := range []struct {
		r    observe.Receipt
		says string
	}{
		{with(func(r *observe.Receipt) { r.Outcome, r.ExitCode = observe.OutcomeExit, 7 }), "exited with 7 after 41s"},
		{with(func(r *observe.Receipt) { r.Outcome, r.Signal = observe.OutcomeSignal, "SIGSEGV" }), "died of SIGSEGV after 41s, which the worker did not send"},
		{with(func(r *observe.Receipt) {
			r.Outcome, r.Signal, r.OOM = observe.OutcomeSignal, "SIGKILL", &observe.OOM{Evidence: "oom_kill rose by 1", Confidence: "high"}
		}), "died of SIGKILL after 41s; memory ran out: oom_kill rose by 1"},
		{with(func(r *observe.Receipt) { r.Outcome = observe.OutcomeTimeout }), "outlived its timeout of 5m0s"},
		{with(func(r *observe.Receipt) {
			r.Outcome, r.EndedBy, r.Reason = observe.OutcomeAbort, observe.EndedByAdmin, "too \x1b slow"
		}), `aborted by an operator ("too \x1b slow") after 41s`},
		{with(func(r *observe.Receipt) { r.Outcome, r.EndedBy, r.PID = observe.OutcomeAbort, observe.EndedByCaller, 0 }), "aborted by its caller while it waited"},
		{with(func(r *observe.Receipt) { r.Outcome, r.Error = observe.OutcomeSpawnError, "spawn: E2BIG" }), "could not be started: spawn: E2BIG"},
		{with(func(r *observe.Receipt) { r.Outcome, r.Error = observe.OutcomeRefused, "busy: queue full" }), "refused: busy: queue full"},
		{with(func(r *observe.Receipt) { r.Outcome = observe.OutcomeLost }), "lost with session 3 and killed after 41s"},
		{with(func(r *observe.Receipt) { r.Outcome = observe.OutcomeDrained }), "drain time was over"},
		{with(func(r *observe.Receipt) {
			r.Outcome, r.Containment.Left = observe.OutcomeUncontained, []observe.Process{{PID: 1}}
		}), "not proven gone: 1 processes are left"},
		{with(func(r *observe.Receipt) { r.Outcome, r.StdoutCut = observe.OutcomeExit, 1<<20 }), "1.0 MiB of its output were cut"},
		{with(func(r *observe.Receipt) {
			r.Outcome, r.PipeHeld, r.Survivors = observe.OutcomeExit, true, []observe.Process{{PID: 5, Name: "no\nde"}}
		}), `it left 1 running: pid 5 "no\nde"`},
	} {
		got := explainReceipt(c.r, operator)
		if !strings.Contains(got, c.says) {
			t.Errorf("%q does not say %q", got, c.says)
		}
		wantPlain(t, why{sentence: got})
	}
}

// Who is no operator is told of no process, no reason and no error.
func TestOthersAreToldLess(t *testing.T) {
	x := observe.Inflight{Exec: fakeExec(1), State: observe.StateRunning, StartedAt: ago(time.Second)}
	in := situation{now: fixtureNow, show: func(s string) string { return s }}
	if got := in.explain(x, look(proc(10, 1, "secret-tool", "S", "nanosleep", "")), unknown); strings.Contains(got.sentence, "secret-tool") || len(got.evidence) > 0 {
		t.Errorf("%+v", got)
	}
	r := observe.Receipt{Exec: fakeExec(1), Outcome: observe.OutcomeSpawnError, Error: "secret"}
	if got := explainReceipt(r, unknown); strings.Contains(got, "secret") {
		t.Errorf("%q", got)
	}
	r = observe.Receipt{Exec: fakeExec(1), Outcome: observe.OutcomeAbort, EndedBy: observe.EndedByAdmin, Reason: "secret"}
	if got := explainReceipt(r, unknown); strings.Contains(got, "secret") {
		t.Errorf("%q", got)
	}
}

// Whatever a process calls itself and its files, what is said stays one plain line.
func FuzzSentenceIsPlain(f *testing.F) {
	for _, s := range []string{"bash", "\x1b]0;x\a", "a\nb", "\xff\xfe", "\u202e", "\u241b", strings.Repeat("x", 5000)} {
		f.Add(s, s, s)
	}
	f.Fuzz(func(t *testing.T, name, file, channel string) {
		x := observe.Inflight{Exec: fakeExec(1), State: observe.StateRunning, StartedAt: ago(time.Second)}
		in := situation{now: fixtureNow, show: func(s string) string { return s }}
		for _, call := range []string{"read", "write", "flock", "", name} {
			wantPlain(t, in.explain(x, look(proc(10, 1, name, "S", call, channel, on(3, file))), operator))
		}
		x.State = observe.StateDraining
		wantPlain(t, in.explain(x, &observe.Inspection{Pipes: []observe.PipeHolder{{Process: observe.Process{Name: name}, Command: file, Writes: true}}}, operator))
	})
}
