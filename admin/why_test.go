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

func bornAfter(d time.Duration) func(*observe.ProcessDetail) {
	return func(p *observe.ProcessDetail) { p.StartedAt = p.StartedAt.Add(d) }
}

// unread adds what could not be read.
func unread(look *observe.Inspection, gaps ...string) *observe.Inspection {
	look.Unreadable = gaps
	return look
}

// asItIs is a preview that hides nothing.
func asItIs(s string) string { return s }

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
		{"disk", look(waitsForChild, proc(11, 10, "dd", "D", "write", "folio_wait")), whyDisk, "is in state D, an uninterruptible wait (write, folio_wait)"},
		{"disk counts more than computing", look(waitsForChild, proc(11, 10, "a", "R", "", "", used(90)), proc(12, 10, "b", "D", "", "io_schedule")), whyDisk, "pid 12 b"},
		{"terminal by file", look(proc(10, 1, "bash", "S", "read", "wait_woken", on(0, "/dev/pts/3"))), whyTerminal, "terminal (/dev/pts/3, fd 0)"},
		{"terminal by channel", look(proc(10, 1, "bash", "S", "", "n_tty_read")), whyTerminal, "waits to read from a terminal; "},
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
		{"no process at all", look(), "running", "no process of it was found"},
		{"not looked at", nil, "running", "its processes were not looked at"},
		{"only what cannot be read", unread(look(), "the process table: too many open files", "and more"), whyUnreadable, "its processes cannot be read here (the process table: too many open files; and 1 more)"},
		{"all have ended", look(proc(10, 1, "bash", "Z", "", "")), "running", "its processes have ended and are not reaped yet"},
		{"the first thread has ended, others live", look(proc(10, 1, "srv", "Z", "", "", threads(3))), whyUnreadable, "main, pid 10 srv, lives on without its first thread; what the other 2 wait for cannot be read here"},
		{"the first thread has ended, others compute", look(proc(10, 1, "srv", "Z", "", "", threads(3), used(90))), whyCPU, "main, pid 10 srv, computes"},
		{"a fork that waits for an exec is no disk", look(proc(10, 1, "make", "D", "vfork", "kernel_clone"), proc(11, 10, "make", "S", "openat", "wait_for_partner")), whyPipe, "pid 11 make opens a FIFO and waits until somebody opens its other end, and main waits for it"},
		{"a fork alone", look(proc(10, 1, "make", "D", "clone3", "kernel_clone")), whySleeping, "waits until its new child runs a program of its own (clone3, kernel_clone)"},
		{"a sleep that went on after a stop", look(proc(10, 1, "sleep", "S", "restart_syscall", "hrtimer_nanosleep")), whySleeping, "main, pid 10 sleep, sleeps (restart_syscall, hrtimer_nanosleep)"},
		{"a poll that went on after a stop", look(proc(10, 1, "p", "S", "restart_syscall", "do_poll.constprop.0")), whySleeping, "waits for events"},
		{"one of several children", look(waitsForChild, proc(11, 10, "sleep", "S", "nanosleep", ""), proc(12, 10, "cat", "S", "read", "", on(0, "pipe:[3]"))), whySleeping, "pid 11 sleep sleeps (nanosleep), one of 2 that main may wait for"},
		{"the busiest of a make -j", look(waitsForChild, proc(11, 10, "cc1", "R", "", "", used(95)), proc(12, 10, "cc1", "R", "", "", used(40)), proc(13, 10, "cc1", "S", "wait4", "do_wait")), whyCPU, "pid 11 cc1 computes: it used 95 %"},
		{"the youngest of those alike", look(waitsForChild, proc(11, 10, "new", "S", "nanosleep", "", bornAfter(time.Second)), proc(12, 10, "old", "S", "nanosleep", "")), whySleeping, "pid 11 new"},
		{"it may be a child that should write", look(proc(10, 1, "bash", "S", "read", "anon_pipe_read", on(3, "pipe:[9]")), proc(11, 10, "sleep", "S", "nanosleep", "")), whySleeping, "pid 11 sleep sleeps (nanosleep); main waits to read from pipe:[9] (fd 3), and may wait for it"},
		{"doubt further down", look(waitsForChild, proc(11, 10, "node", "S", "epoll_wait", "", on(5, "")), proc(12, 11, "sleep", "S", "nanosleep", "")), whySleeping, "pid 12 sleep sleeps (nanosleep); pid 11 node waits for events (epoll_wait), and may wait for it"},
		{"main is not there", look(proc(11, 1, "sleep", "S", "nanosleep", "")), whySleeping, "running for 41s: pid 11 sleep sleeps (nanosleep); "},
		{"parents in a ring", look(proc(11, 12, "a", "S", "wait4", ""), proc(12, 11, "b", "S", "nanosleep", "")), whySleeping, "pid 12 b sleeps"},
		{"a ring with main in it", look(proc(10, 11, "bash", "S", "wait4", ""), proc(11, 10, "a", "S", "wait4", ""), proc(12, 11, "b", "S", "nanosleep", "")), whySleeping, "pid 12 b sleeps (nanosleep), and main waits for it"},
		{"a ring with nobody else in it", look(proc(10, 11, "bash", "S", "wait4", ""), proc(11, 10, "a", "S", "wait4", "")), whySleeping, "waits for a child (wait4)"},
		{"one thread at a futex", look(proc(10, 1, "p", "S", "futex", "futex_do_wait")), whySleeping, "waits for a lock in memory (futex"},
		{"a name that would drive a terminal", look(proc(10, 1, "\x1b[2J", "S", "nanosleep", "")), whySleeping, `pid 10 "\x1b[2J",`},
		{"a file that would forge a line", look(proc(10, 1, "cat", "S", "read", "", on(3, "/tmp/a\nreq_id 2: fine"))), whySleeping, `"/tmp/a\nreq_id 2: fine"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := observe.Inflight{Exec: fakeExec(1), State: observe.StateRunning, PID: 10, StartedAt: ago(41 * time.Second)}
			x.Exec.Timeout = 0
			got := situation{now: fixtureNow, show: asItIs, unseen: unseenAsked}.explain(x, c.look, operator)
			if got.kind != c.kind || !strings.Contains(got.sentence, c.says) {
				t.Errorf("%s: %q", got.kind, got.sentence)
			}
			if !strings.HasPrefix(got.sentence, "running for 41s") || !strings.HasSuffix(got.sentence, "no output yet") {
				t.Errorf("%q does not say since when, or what came out", got.sentence)
			}
			if most := 160; len(got.sentence) > most && !strings.Contains(got.sentence, "\\") {
				t.Errorf("%q has %d characters, more than %d", got.sentence, len(got.sentence), most)
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
