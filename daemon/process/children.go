package process

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// children lists our direct children. The kernel keeps them by thread, in
// /proc/<pid>/task/<tid>/children (proc_pid_task_tid_children(5)):
//
//   - A main hangs on the thread that forked it, and so does what main makes
//     with CLONE_PARENT.
//   - What is adopted hangs on the first thread of ours that is not exiting,
//     which is the leader: in a Go program it never exits.
//   - When a thread exits, its children are moved to the leader (find_new_reaper
//     and forget_original_parent in kernel/exit.c).
//
// New ones come at the end of a list, and only our own reaping takes one out for
// good. So reading the forkers' lists first and the leader's last, while nobody
// reaps, meets every child that was there at the start: one that moves
// meanwhile moves to where we have not been yet.
//
// Nobody reaps while the owner's lock is held, so listLocked wants it.
type children struct {
	leader *forker
	table  *table // used where the kernel has no lists
	pids   []int

	mu      sync.Mutex
	forkers map[int]*forker // by thread
}

// forker is a thread that has forked mains.
type forker struct {
	tid   int
	trees atomic.Int32 // that it forked and that are not proven gone: while there are, it is not dropped

	mu   sync.Mutex // one reader at a time
	file int        // its list; -1 where the kernel has none
	buf  []byte
}

const maxForkers = 64 // open, before those that have nothing left are dropped

func openChildren(t *table) *children {
	return &children{leader: openForker(os.Getpid()), forkers: make(map[int]*forker), table: t}
}

func openForker(tid int) *forker {
	f := &forker{tid: tid, file: -1}
	f.open()
	return f
}

func (f *forker) open() {
	path := "/proc/self/task/" + strconv.Itoa(f.tid) + "/children"
	if fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		f.file = fd // otherwise CONFIG_PROC_CHILDREN is off
	}
}

func (f *forker) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file >= 0 {
		unix.Close(f.file)
		f.file = -1
	}
}

func (c *children) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader.close()
	for _, f := range c.forkers {
		f.close()
	}
}

// forker counts a tree for the calling thread, tid.
func (c *children) forker(tid int) *forker {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.forkers[tid]
	if f == nil {
		c.dropIdle()
		f = openForker(tid)
		c.forkers[tid] = f
	}
	f.trees.Add(1)
	return f
}

func (c *children) dropIdle() {
	if len(c.forkers) < maxForkers {
		return
	}
	for tid, f := range c.forkers {
		if f.trees.Load() == 0 {
			f.close()
			delete(c.forkers, tid)
		}
	}
}

// check makes sure that f's list is that of the calling thread, which has just
// forked pid: the file of a thread that has exited stays empty though another
// thread may have got its number.
func (f *forker) check(pid int) {
	if slices.Contains(f.list(nil), pid) {
		return
	}
	f.close()
	f.mu.Lock()
	f.open()
	f.mu.Unlock()
}

// listLocked returns the numbers of our children. The slice is good until the
// next call.
func (c *children) listLocked() ([]int, error) {
	c.pids = c.pids[:0]
	if c.leader.file < 0 {
		return c.byParent()
	}
	c.mu.Lock()
	for _, f := range c.forkers {
		if f.tid != c.leader.tid {
			c.pids = f.list(c.pids)
		}
	}
	c.mu.Unlock()
	c.pids = c.leader.list(c.pids)
	return c.pids, nil
}

// list appends the numbers of f's children to pids.
func (f *forker) list(pids []int) []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file < 0 {
		return pids
	}
	if f.buf == nil {
		f.buf = make([]byte, 4<<10) // what one read of such a file gives at most
	}
	n := 0
	for {
		got, err := unix.Pread(f.file, f.buf[n:], int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil || got == 0 {
			break
		}
		if n += got; n == len(f.buf) {
			f.buf = append(f.buf, make([]byte, len(f.buf))...)
		}
	}
	pid := 0
	for _, b := range f.buf[:n] {
		if b >= '0' && b <= '9' {
			pid = pid*10 + int(b-'0')
		} else if pid > 0 {
			pids = append(pids, pid)
			pid = 0
		}
	}
	return pids
}

func (c *children) byParent() ([]int, error) {
	self := os.Getpid()
	whole := c.table.each(func(e entry) bool {
		if s, err := readStat(e.pid); err == nil && s.ppid == self {
			c.pids = append(c.pids, e.pid)
		}
		return true
	})
	if !whole {
		return nil, fmt.Errorf("read /proc for our children")
	}
	return c.pids, nil
}
