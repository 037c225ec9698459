package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// watchLocked has main's end noticed at once, in the runtime's poller: no
// thread waits along. The watcher has a descriptor of its own, because the
// tree's is closed by whoever reaps main.
func (o *Owner) watchLocked(t *Tree) {
	if t.ended || t.watch != nil || o.isClosing() {
		return
	}
	fd, err := unix.FcntlInt(uintptr(t.pidfd), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true) // the poller takes no other
	}
	if err != nil {
		return // out of descriptors: the keeper's looks notice it, up to a second late
	}
	t.watch = os.NewFile(uintptr(fd), "pidfd")
	o.loops.Go(t.watchEnd)
}

func (t *Tree) watchEnd() {
	defer t.watch.Close()
	conn, err := t.watch.SyscallConn()
	if err == nil {
		err = conn.Read(func(fd uintptr) bool { return exited(int(fd)) })
	}
	if err != nil {
		return // closed by Close
	}
	o := t.owner
	o.mu.Lock()
	defer o.mu.Unlock()
	t.endLocked()
	if t.sweep != nil {
		o.roundNowLocked()
	}
}

// exited says that the process behind pidfd has ended. A pidfd becomes
// readable then (pidfd_open(2)), but a zombie that is traced is its tracer's
// until that one lets go, which makes the pidfd readable once more.
func exited(pidfd int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PIDFD, pidfd, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	return err == unix.ECHILD || err == nil && info.Signo != 0
}

func (o *Owner) isClosing() bool {
	select {
	case <-o.closing:
		return true
	default:
		return false
	}
}
