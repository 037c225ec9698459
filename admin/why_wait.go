package admin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"execworker/daemon/observe"
)

// Ranks of waits: a reader of a pipe waits for whoever writes, so it explains
// least.
const (
	rankLock     = 4
	rankTerminal = 4
	rankOpen     = 5
	rankTimer    = 6
	rankSocket   = 6
	rankOther    = 7
	rankEvents   = 8
	rankWrite    = 9
	rankRead     = 10
)

var (
	readCalls    = []string{"read", "readv", "pread64", "preadv", "preadv2"}
	writeCalls   = []string{"write", "writev", "pwrite64", "pwritev", "pwritev2", "sendfile", "splice"}
	forkCalls    = []string{"vfork", "clone", "clone3"}
	childCalls   = []string{"wait4", "waitid"}
	timerCalls   = []string{"nanosleep", "clock_nanosleep"}
	eventCalls   = []string{"poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"}
	signalCalls  = []string{"pause", "rt_sigsuspend", "rt_sigtimedwait"}
	receiveCalls = []string{"recvfrom", "recvmsg", "recvmmsg"}
	sendCalls    = []string{"sendto", "sendmsg", "sendmmsg"}
	acceptCalls  = []string{"accept", "accept4"}
	lockCalls    = []string{"flock", "fcntl"}
	openCalls    = []string{"open", "openat", "openat2"}
)

// wait is what a process waits for, in words.
type wait struct {
	kind   string
	phrase string
	until  string // what ends it, if the phrase does not say
	rank   int    // the lower, the more it explains
	child  childWait
}

func (w wait) full() string { return w.phrase + w.until }

// childWait says whether a process that has children waits for one of them.
type childWait int

const (
	childNo childWait = iota
	childMaybe
	childYes
)

// waitOf says what a process waits for, from its state, the system call that it
// is in, and the kernel's wait channel; whichever of them can be read.
func waitOf(p observe.ProcessDetail, window time.Duration) wait {
	used := share(p, window)
	switch {
	case dead(p):
		return wait{kind: whySleeping, rank: rankOther, phrase: "has ended and is not reaped yet"}
	case p.State == "T":
		return wait{kind: whyStopped, rank: 0, phrase: "is stopped (state T) and goes on with SIGCONT"}
	case p.State == "t":
		return wait{kind: whyStopped, rank: 0, phrase: "is held by a tracer (state t)"}
	case used >= busy:
		return wait{kind: whyCPU, rank: 2, phrase: fmt.Sprintf("computes: it used %.0f %% of a CPU in the last %s", used*100, age(window))}
	case p.State == "Z":
		return wait{kind: whyUnreadable, rank: rankOther, phrase: fmt.Sprintf("lives on without its first thread; what the other %d wait for cannot be read here", p.Threads-1), child: childMaybe}
	case p.State == "D" && slices.Contains(forkCalls, p.Call): // wait_for_vfork_done, kernel/fork.c
		return wait{kind: whySleeping, rank: rankOther, phrase: "waits until its new child runs a program of its own" + in(p), child: childYes}
	case p.State == "D":
		return wait{kind: whyDisk, rank: 1, phrase: "is in state D, an uninterruptible wait" + in(p)}
	case p.State == "R" && p.Call == "" && p.WaitsIn == "":
		return wait{kind: whyCPU, rank: 3, phrase: "is on a CPU or ready for one (state R)"}
	}
	return waitIn(p)
}

// in names where in the kernel a process sleeps.
func in(p observe.ProcessDetail) string {
	var where []string
	for _, part := range []string{p.Call, p.WaitsIn} {
		if part != "" {
			where = append(where, ascii(part))
		}
	}
	if len(where) == 0 {
		return ", where cannot be read here"
	}
	return " (" + strings.Join(where, ", ") + ")"
}

// waitIn is about a process that sleeps. A call that was begun anew after a stop
// is restart_syscall (restart_syscall(2)), which says nothing of what it was.
func waitIn(p observe.ProcessDetail) wait {
	of := func(calls []string) bool { return slices.Contains(calls, p.Call) }
	nameless := func(channels ...string) bool {
		return (p.Call == "" || p.Call == "restart_syscall") && inChannel(p, channels...)
	}
	where := in(p)
	switch {
	case isTerminal(p):
		return wait{kind: whyTerminal, rank: rankTerminal, phrase: "waits to read from a terminal" + file(p)}
	case of(readCalls) || nameless("pipe_read", "pipe_wait_readable"):
		return readWait(p)
	case of(writeCalls) || nameless("pipe_write", "pipe_wait_writable"):
		return wait{kind: kindOfFile(p), rank: rankWrite, phrase: "waits to write" + toFile(p, "to"), until: ", until somebody reads"}
	case of(openCalls) && inChannel(p, "wait_for_partner", "fifo_open"):
		return wait{kind: whyPipe, rank: rankOpen, phrase: "opens a FIFO and waits until somebody opens its other end"}
	case of(childCalls) || nameless("do_wait"):
		return wait{kind: whySleeping, rank: rankOther, phrase: "waits for a child" + where, child: childYes}
	case of(timerCalls) || nameless("nanosleep"):
		return wait{kind: whySleeping, rank: rankTimer, phrase: "sleeps" + where}
	case of(lockCalls):
		return wait{kind: whyLock, rank: rankLock, phrase: "waits for a file lock" + file(p) + lockHolder(p)}
	case p.Call == "connect":
		return wait{kind: whySocket, rank: rankSocket, phrase: "waits for a connection to be made" + file(p)}
	case of(acceptCalls):
		return wait{kind: whySocket, rank: rankEvents, phrase: "waits for somebody to connect" + file(p)}
	case of(receiveCalls):
		return wait{kind: whySocket, rank: rankSocket, phrase: "waits to receive" + toFile(p, "from")}
	case of(sendCalls):
		return wait{kind: whySocket, rank: rankWrite, phrase: "waits to send" + toFile(p, "to")}
	case p.Call == "futex" || p.Call == "futex_waitv" || nameless("futex"):
		return wait{kind: whySleeping, rank: rankOther, phrase: threadWords(p) + where}
	case of(eventCalls) || nameless("ep_poll", "poll_schedule_timeout", "do_poll", "do_sys_poll", "do_select"):
		return wait{kind: whySleeping, rank: rankEvents, phrase: "waits for events" + where, child: childMaybe}
	case of(signalCalls):
		return wait{kind: whySleeping, rank: rankOther, phrase: "waits for a signal" + where, child: childMaybe}
	case p.Call == "" && p.WaitsIn == "":
		return wait{kind: whyUnreadable, rank: rankOther, phrase: "is in state " + stateOf(p.State) + where, child: childMaybe}
	}
	return wait{kind: whySleeping, rank: rankOther, phrase: "sleeps" + where, child: childMaybe}
}

// threadWords is about whoever waits at a futex. With one thread that is for
// another process, if not for ever.
func threadWords(p observe.ProcessDetail) string {
	if p.Threads > 1 {
		return fmt.Sprintf("waits for another of its %d threads or a lock in memory", p.Threads)
	}
	return "waits for a lock in memory"
}

// readWait is about whoever waits to read. If it has children, one of them may be
// who should write, as in x=$(command).
func readWait(p observe.ProcessDetail) wait {
	w := wait{kind: kindOfFile(p), rank: rankRead, phrase: "waits to read" + toFile(p, "from"), child: childMaybe}
	if w.kind == whyPipe {
		w.until = ", until somebody writes or the last writer ends"
	}
	return w
}

// lockHolder names who has the lock that a process waits for.
func lockHolder(p observe.ProcessDetail) string {
	if p.LockHolder.PID == 0 {
		return ""
	}
	return ", which " + named(p.LockHolder) + " holds"
}

// isTerminal says that a process reads from a terminal. n_tty_read is where the
// kernel does that (drivers/tty/n_tty.c).
func isTerminal(p observe.ProcessDetail) bool {
	if inChannel(p, "n_tty_read") {
		return true
	}
	return slices.Contains(readCalls, p.Call) &&
		(p.File == "/dev/tty" || p.File == "/dev/console" || strings.HasPrefix(p.File, "/dev/pts/") || strings.HasPrefix(p.File, "/dev/tty"))
}

func kindOfFile(p observe.ProcessDetail) string {
	switch {
	case strings.HasPrefix(p.File, "socket:"):
		return whySocket
	case strings.HasPrefix(p.File, "pipe:"), inChannel(p, "pipe_read", "pipe_write", "pipe_wait_readable", "pipe_wait_writable"):
		return whyPipe
	}
	return whySleeping
}

// inChannel says that the wait channel has one of these in its name: kernels
// have pipe_read, anon_pipe_read and fifo_pipe_read for the same.
func inChannel(p observe.ProcessDetail, names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.Contains(p.WaitsIn, n) })
}

// file names the descriptor that a call is about.
func file(p observe.ProcessDetail) string {
	if p.FD < 0 {
		return ""
	}
	if p.File == "" {
		return fmt.Sprintf(" (fd %d)", p.FD)
	}
	return fmt.Sprintf(" (%s, fd %d)", cut(ascii(p.File), 60), p.FD)
}

func toFile(p observe.ProcessDetail, preposition string) string {
	if p.FD < 0 {
		return in(p)
	}
	if p.File == "" {
		return fmt.Sprintf(" %s fd %d", preposition, p.FD)
	}
	return fmt.Sprintf(" %s %s (fd %d)", preposition, cut(ascii(p.File), 60), p.FD)
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most-3] + "..."
}
