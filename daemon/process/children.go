package process

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// children lists our direct children. The kernel keeps them by thread: those
// that we forked hang on the spawner's thread (and so do those that main makes
// with CLONE_PARENT), those that were adopted on the first thread of ours that
// is not exiting, which is the leader (find_alive_thread in kernel/exit.c).
//
// New ones come at the end of a list and only our own reaping takes one out,
// so a walk of a list meets every child that was there when it began,
// provided nobody reaps meanwhile: the owner's lock is held around list.
type children struct {
	files []int  // of the lists; empty where the kernel has none
	table *table // then used instead
	buf   []byte
	pids  []int
}

func openChildren(spawner int, t *table) (*children, error) {
	c := &children{table: t, buf: make([]byte, 16<<10)}
	threads := []int{spawner}
	if leader := os.Getpid(); leader != spawner {
		threads = append(threads, leader)
	}
	for _, tid := range threads {
		path := "/proc/self/task/" + strconv.Itoa(tid) + "/children"
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT { // CONFIG_PROC_CHILDREN is off
			c.close()
			return c, nil
		}
		if err != nil {
			c.close()
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
		c.files = append(c.files, fd)
	}
	return c, nil
}

func (c *children) close() {
	for _, fd := range c.files {
		unix.Close(fd)
	}
	c.files = nil
}

// list returns the numbers of our children. The slice is good until the next call.
func (c *children) list() ([]int, error) {
	c.pids = c.pids[:0]
	if len(c.files) == 0 {
		return c.byParent()
	}
	for _, fd := range c.files {
		n, err := c.read(fd)
		if err != nil {
			return nil, err
		}
		pid := 0
		for _, b := range c.buf[:n] {
			if b >= '0' && b <= '9' {
				pid = pid*10 + int(b-'0')
			} else if pid > 0 {
				c.pids = append(c.pids, pid)
				pid = 0
			}
		}
	}
	return c.pids, nil
}

func (c *children) read(fd int) (int, error) {
	for n := 0; ; {
		got, err := unix.Pread(fd, c.buf[n:], int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("read our children: %w", err)
		}
		if got == 0 {
			return n, nil
		}
		if n += got; n == len(c.buf) {
			c.buf = append(c.buf, make([]byte, len(c.buf))...)
		}
	}
}

func (c *children) byParent() ([]int, error) {
	self := os.Getpid()
	whole := c.table.each(func(pid int) bool {
		if s, err := readStat(pid); err == nil && s.ppid == self {
			c.pids = append(c.pids, pid)
		}
		return true
	})
	if !whole {
		return nil, fmt.Errorf("read /proc for our children")
	}
	return c.pids, nil
}
