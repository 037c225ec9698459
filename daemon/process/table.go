package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// table walks the numbers of all processes that /proc shows, through one
// descriptor and one buffer kept for all walks and without an allocation an
// entry: a sweep walks it several times while somebody forks against it.
// Not safe for concurrent use.
type table struct {
	proc int
	buf  []byte
}

func openTable() (*table, error) {
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /proc: %w", err)
	}
	return &table{proc: fd, buf: make([]byte, 32<<10)}, nil
}

func (t *table) close() { unix.Close(t.proc) }

// entry is a process in the table. Its inode stands for that one process: /proc
// makes another one for the next process of the same number (proc_flush_pid in
// fs/proc/base.c), though also when memory is short.
type entry struct {
	pid   int
	inode uint64
}

// each calls visit for every process until it says stop. It returns whether
// it came to the end.
func (t *table) each(visit func(e entry) (goOn bool)) bool {
	if _, err := unix.Seek(t.proc, 0, unix.SEEK_SET); err != nil {
		return false
	}
	err := eachName(t.proc, t.buf, func(inode uint64, name []byte) bool {
		e := entry{pid: number(name), inode: inode}
		return e.pid == 0 || visit(e)
	})
	return err == nil
}

var errStopped = errors.New("the reader of a directory has seen enough")

// eachName calls visit for what is left to read of a directory. A name has its
// NUL, and what is behind that is padding. Without an allocation an entry.
func eachName(dir int, buf []byte, visit func(inode uint64, name []byte) (goOn bool)) error {
	for {
		n, err := unix.Getdents(dir, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		for b := buf[:n]; len(b) > 0; {
			// struct linux_dirent64 (getdents(2)): inode 8, offset 8, record
			// length 2, type 1, name.
			length := int(binary.NativeEndian.Uint16(b[16:]))
			if !visit(binary.NativeEndian.Uint64(b), b[19:length]) {
				return errStopped
			}
			b = b[length:]
		}
	}
}

// number parses a name of digits; 0 is any other name.
func number(name []byte) int {
	n := 0
	for i, c := range name {
		if c == 0 && i > 0 {
			return n
		}
		if c < '0' || c > '9' || i > 9 {
			return 0
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// readProc reads a file of a process in one go, which is how the kernel writes
// these: without the stat, the poller and the growing buffer of os.ReadFile.
func readProc(pid int, name string, buf []byte) ([]byte, error) {
	return readIn(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid)+"/"+name, buf)
}

// readIn is readProc below a folder of /proc that is open: that one stands for
// its process, whoever has the number later.
func readIn(dir int, name string, buf []byte) ([]byte, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Read(fd, buf)
		if err != unix.EINTR {
			return buf[:max(n, 0)], err
		}
	}
}

// checkProc finds out whether /proc speaks of our own PID namespace.
func checkProc() error {
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return fmt.Errorf("proc: %w", err)
	}
	if number([]byte(self+"\x00")) != os.Getpid() {
		return fmt.Errorf("proc: /proc is of another PID namespace: we are %d, it says %s", os.Getpid(), self)
	}
	return nil
}
