package runner

import (
	"os"

	"golang.org/x/sys/unix"
)

// widePipe is the size of a pipe whose reader could not keep up, in bytes. It
// is the default of /proc/sys/fs/pipe-max-size, which is the most that an
// unprivileged process may ask for.
const widePipe = 1 << 20

// outPipe returns a pipe that the command writes to: our end, in Go's poller
// so that it can be read with a deadline, and the command's end, blocking as
// every program expects.
func outPipe() (ours *os.File, theirs int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, os.NewSyscallError("pipe2", err)
	}
	if err := unix.SetNonblock(p[0], true); err != nil {
		unix.Close(p[0])
		unix.Close(p[1])
		return nil, -1, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(p[0]), "output"), p[1], nil
}

// inPipe returns a pipe that the command reads from.
func inPipe() (ours *os.File, theirs int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, os.NewSyscallError("pipe2", err)
	}
	if err := unix.SetNonblock(p[1], true); err != nil {
		unix.Close(p[0])
		unix.Close(p[1])
		return nil, -1, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(p[1]), "stdin"), p[0], nil
}

// inode is that of an open file; 0 if it cannot be known.
func inode(fd int) uint64 {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Ino
}

// widen makes the pipe behind f hold more. It is refused when the user's pipes
// hold too much already (pipe(7), pipe-user-pages-soft); then it stays as it is.
func widen(f *os.File) {
	control(f, func(fd int) { _, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, widePipe) })
}

// unread is how many bytes are in the pipe behind f.
func unread(f *os.File) int {
	n := 0
	control(f, func(fd int) { n, _ = unix.IoctlGetInt(fd, unix.TIOCINQ) })
	return n
}

// readNow reads what is in the pipe and never waits: unix.EAGAIN if it is empty.
func readNow(f *os.File, p []byte) (n int, err error) {
	control(f, func(fd int) {
		for {
			n, err = unix.Read(fd, p)
			if err != unix.EINTR {
				return
			}
		}
	})
	return max(n, 0), err
}

// control runs fn on the descriptor, without the side effects of File.Fd. It
// does nothing once the file is closed.
func control(f *os.File, fn func(fd int)) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { fn(int(fd)) })
}
