package process

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// kernel is what a test may put itself in front of: who is who, and signals.
type kernel struct {
	kill      func(pid int, sig syscall.Signal) error
	pidfdOpen func(pid int) (int, error)
	pidfdSend func(pidfd int, sig syscall.Signal) error
	tagOf     func(pid int) (uint64, error)
	sessionOf func(pid int) (int, error)
	statOf    func(pid int) (stat, error)
	afterScan func() // may be nil
}

func realKernel(t *tags) kernel {
	return kernel{
		kill:      syscall.Kill,
		pidfdOpen: func(pid int) (int, error) { return unix.PidfdOpen(pid, 0) },
		pidfdSend: func(pidfd int, sig syscall.Signal) error { return unix.PidfdSendSignal(pidfd, sig, nil, 0) },
		tagOf:     t.of,
		sessionOf: unix.Getsid,
		statOf:    readStat,
	}
}

// target is whom a signal is for. Whoever makes one has made sure that the
// number cannot mean somebody else.
type target struct {
	pid    int  // the process; of a group, a member of it
	pidfd  int  // when fenced
	fenced bool // the signal goes through pidfd
	group  int  // not 0: the whole group
}

// pinned is a child of ours that nobody has reaped yet.
func pinned(pid int) target { return target{pid: pid} }

// fenced is the process behind pidfd, if it still is the one.
func fenced(pid, pidfd int) target { return target{pid: pid, pidfd: pidfd, fenced: true} }

// groupOf is the group that a pinned or a stopped process keeps from ending.
func groupOf(pid, group int) target { return target{pid: pid, group: group} }

// signaller sends every signal that this package sends.
type signaller struct {
	kernel  *kernel
	self    int
	group   int
	session int
}

func newSignaller(k *kernel) *signaller {
	session, _ := unix.Getsid(0)
	return &signaller{kernel: k, self: syscall.Getpid(), group: syscall.Getpgrp(), session: session}
}

// refusedError is a signal that is never sent, whatever asked for it.
type refusedError struct {
	target target
	why    string
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("signal: refused for process %d, group %d: %s", e.target.pid, e.target.group, e.why)
}

// send signals to, unless a mistake on our side would hit what is not ours to
// signal: numbers that kill(2) reads as "everybody" or "our group", the
// daemon, its group, and whatever shares its session. All mains lead sessions
// of their own, so no process of a tree is ever in ours.
func (s *signaller) send(to target, sig syscall.Signal) error {
	refuse := func(why string) error { return &refusedError{to, why} }
	switch {
	case to.pid <= 1:
		return refuse("no such single process")
	case to.pid == s.self:
		return refuse("ourselves")
	case to.group != 0 && (to.group <= 1 || to.group == s.group || to.group == s.self):
		return refuse("our own group, or no group")
	}
	session, err := s.kernel.sessionOf(to.pid)
	if err != nil {
		return err
	}
	if session == s.session {
		return refuse("of our own session")
	}
	switch {
	case to.group != 0:
		return s.kernel.kill(-to.group, sig)
	case to.fenced:
		return s.kernel.pidfdSend(to.pidfd, sig)
	}
	return s.kernel.kill(to.pid, sig)
}
