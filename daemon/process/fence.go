package process

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A fence makes sure that a signal for a process that is not our child cannot
// reach a stranger: a pidfd stands for one process and never for the next one
// of the same number. So the order is pidfd, tag, signal: if the number was
// given to somebody else before the pidfd was made, the tag is not the tree's;
// if after, the signal finds the first process gone.

// found is what a fence met.
type found int

const (
	foundNobody found = iota // not of the tree, or gone
	foundHusk                // dead to the last thread, and some other parent's to reap
	foundAlive
)

// killFenced sends sig to pid if it bears tag.
func (o *Owner) killFenced(pid int, tag uint64, sig syscall.Signal) found {
	return o.throughFence(pid, tag, func(pidfd int) found {
		if err := o.signals.send(fenced(pid, pidfd), sig); err == unix.ESRCH {
			return foundNobody
		}
		return foundAlive // and if the signal was refused, it goes on being found
	})
}

// meetFenced looks without a signal.
func (o *Owner) meetFenced(pid int, tag uint64) found {
	return o.throughFence(pid, tag, func(int) found { return foundAlive })
}

// throughFence hands the pidfd of pid to meet, if that bears tag and lives.
func (o *Owner) throughFence(pid int, tag uint64, meet func(pidfd int) found) found {
	pidfd, err := o.kernel.pidfdOpen(pid)
	if err != nil {
		return unfenced(err)
	}
	defer unix.Close(pidfd)
	if t, err := o.kernel.tagOf(pid); err != nil || t != tag {
		return foundNobody
	}
	if dead(pidfd) {
		return foundHusk
	}
	return meet(pidfd)
}

// unfenced: only "no such process" says that there is none. Being out of
// descriptors does not.
func unfenced(err error) found {
	if err == unix.ESRCH {
		return foundNobody
	}
	return foundAlive
}

// dead says that no thread of the process behind pidfd runs any more. State Z
// of /proc/<pid>/stat would not: it is the first thread's own.
func dead(pidfd int) bool { return readable(pidfd, 0) }

// readable waits for the end of the process behind pidfd, in whole milliseconds.
// A pidfd becomes readable then (pidfd_open(2)), and stays so.
func readable(pidfd int, within time.Duration) bool {
	p := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(p, int(within.Milliseconds()))
		if err != unix.EINTR {
			return n == 1 && p[0].Revents&unix.POLLIN != 0
		}
	}
}

const (
	stopLooks = 20 // at the state of a process that was told to stop
	stopPause = 50 * time.Microsecond
)

// pause is for less than the runtime's poller can sleep, which is a millisecond.
func pause(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil)
}

// killGroup kills the whole group of pid, a process that bears tag. A group
// kill leaves no gap for a fork, but a group has no pidfd. So one member is
// stopped, through its own fence, and asked again where it is: while it stays
// stopped it neither ends nor changes group, so the number stays that group's.
// A group lies within one session, and that session was made inside the tree.
func (o *Owner) killGroup(pid, group int, tag uint64) (killed bool) {
	if o.killFenced(pid, tag, unix.SIGSTOP) != foundAlive {
		return false
	}
	for range stopLooks {
		s, err := o.kernel.statOf(pid)
		switch {
		case err != nil || s.group != group || s.state == 'Z' || s.state == 'X':
			return false
		case s.state == 'T':
			return o.signals.send(groupOf(pid, group), unix.SIGKILL) == nil
		}
		pause(stopPause)
	}
	return false
}
