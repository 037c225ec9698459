package admin

import (
	"fmt"
	"slices"
	"strings"

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

// waitIn is about a process that sleeps.
func waitIn(p observe.ProcessDetail) wait {
	of := func(calls []string) bool { return slices.Contains(calls, p.Call) }
	where := in(p)
	switch {
	case isTerminal(p):
		return wait{kind: whyTerminal, rank: rankTerminal, phrase: "waits to read from a terminal" + file(p) + ", where nobody types"}
	case of(readCalls) || p.Call == "" && inChannel(p, "pipe_read", "pipe_wait_readable"):
		return readWait(p)
	case of(writeCalls) || p.Call == "" && inChannel(p, "pipe_write", "pipe_wait_writable"):
		return wait{kind: kindOfFile(p), rank: rankWrite, phrase: "waits to write" + toFile(p, "to") + ", until somebody reads"}
	case of(openCalls) && inChannel(p, "wait_for_partner", "fifo_open"):
		return wait{kind: whyPipe, rank: rankOpen, phrase: "opens a FIFO and waits until somebody opens its other end"}
	case of(childCalls) || p.Call == "" && inChannel(p, "do_wait"):
		return wait{kind: whySleeping, rank: rankOther, phrase: "waits for a child" + where, forChild: true}
	case of(timerCalls) || p.Call == "" && inChannel(p, "nanosleep"):
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
	case p.Call == "futex" || p.Call == "" && inChannel(p, "futex"):
		return wait{kind: whySleeping, rank: rankOther, phrase: fmt.Sprintf("waits for another of its %d threads or a lock in memory", max(p.Threads, 1)) + where}
	case of(eventCalls) || p.Call == "" && inChannel(p, "ep_poll", "poll_schedule_timeout", "do_sys_poll", "do_select"):
		return wait{kind: whySleeping, rank: rankEvents, phrase: "waits for events" + where, forChild: true}
	case of(signalCalls):
		return wait{kind: whySleeping, rank: rankOther, phrase: "waits for a signal" + where, forChild: true}
	case p.Call == "" && p.WaitsIn == "":
		return wait{kind: whyUnreadable, rank: rankOther, phrase: "is in state " + stateOf(p.State) + where, forChild: true}
	}
	return wait{kind: whySleeping, rank: rankOther, phrase: "sleeps" + where, forChild: true}
}

// readWait is about whoever waits to read. If it has children, one of them may be
// who should write, as in x=$(command).
func readWait(p observe.ProcessDetail) wait {
	phrase := "waits to read" + toFile(p, "from")
	if kindOfFile(p) == whyPipe {
		phrase += ", until somebody writes or the last writer ends"
	}
	return wait{kind: kindOfFile(p), rank: rankRead, phrase: phrase, forChild: true}
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
