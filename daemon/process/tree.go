package process

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Tree is a main and all living descendants of it. All methods are safe for
// concurrent use.
//
// Somebody must call Release or Sweep in the end, or main stays a zombie.
type Tree struct {
	owner   *Owner
	tag     uint64
	forker  *forker // the thread that forked main
	pid     int     // of main; 0 while it is being forked
	pidfd   int     // of main; closed when main is reaped
	began   time.Time
	done    chan struct{}
	settled chan struct{}
	gone    chan struct{}

	// Guarded by owner.mu.
	ended       bool // done is closed
	reaped      bool // main is; its number may be somebody else's
	exit        Exit // once reaped
	looked      bool // settled is closed
	proven      bool // gone is closed
	condemned   bool // what is found of it is killed
	uncontained bool // a sweep ended without proof, and there is none since
	sweep       *sweep
	watch       *os.File // a pidfd of main in the runtime's poller; nil while nobody watches
	exposed     int      // times that its oom_score_adj was raised
	reaps       int64    // of processes that bear its tag

	look look // what the keeper's last look found
}

// endIsNear is how long Release waits on the caller's own thread.
const endIsNear = 5 * time.Millisecond

// Exit is how main ended.
type Exit struct {
	Code   int            // exit code; 0 when Signal is set; -1 when somebody else has reaped it
	Signal syscall.Signal // that main died of; 0 when it exited
	Rusage syscall.Rusage // of main and of what it waited for
}

// Sweep is what it took to make a tree be gone.
type Sweep struct {
	Exit   Exit // of main
	Rounds int
	Reaped int
	Left   []Process // not proven gone, at most 16 of them
	Took   time.Duration
}

// Proven says that nothing of the tree is left.
func (s Sweep) Proven() bool { return len(s.Left) == 0 }

func newTree(o *Owner) *Tree {
	return &Tree{
		owner:   o,
		done:    make(chan struct{}),
		settled: make(chan struct{}),
		gone:    make(chan struct{}),
	}
}

// PID is main's number, and that of its session and group. After Release or
// Sweep it may be somebody else's.
func (t *Tree) PID() int { return t.pid }

// Done is closed when main has ended. It is a zombie then and keeps its number
// until Release or Sweep.
//
// Asking for it in the first 10 ms of main's life costs about half of what the
// spawn cost. Whoever has something better to wait for, such as the end of the
// output, asks DoneLate and Ended instead.
func (t *Tree) Done() <-chan struct{} {
	o := t.owner
	o.mu.Lock()
	defer o.mu.Unlock()
	o.watchLocked(t)
	return t.done
}

// DoneLate is the channel of Done, but it costs nothing: when main ends in the
// first 10 ms of its life, it is closed up to 10 ms late.
func (t *Tree) DoneLate() <-chan struct{} { return t.done }

// Ended says whether main has ended, and gives it until within for that, in
// steps of a millisecond. This is the cheap way to wait for an end that is near,
// as it is when the output has come to its end: the caller's own thread waits,
// and no other is woken.
func (t *Tree) Ended(within time.Duration) bool {
	select {
	case <-t.done:
		return true
	default:
	}
	// Somebody else may reap main meanwhile and free the descriptor: the poll
	// says something or nothing then, and Done says the truth.
	if !readable(t.pidfd, within) {
		return false
	}
	select {
	case <-t.done:
		return true
	default:
		return ended(t.pid)
	}
}

// Settled is closed when survivors have been seen for the first time after
// Release, or together with Gone, or when a sweep has ended. One look serves all
// trees that were released in some 50 ms, so it comes a little after.
func (t *Tree) Settled() <-chan struct{} { return t.settled }

// Gone is closed when it is proven that nothing of the tree is left.
func (t *Tree) Gone() <-chan struct{} { return t.gone }

// Release waits for main's end and reaps it. From then on its number is never
// signalled; what is left of the tree are survivors, which live on until they
// end or are swept. Calling it again gives the same Exit.
func (t *Tree) Release() Exit {
	o := t.owner
	if !t.Ended(endIsNear) {
		<-t.Done()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for !t.reapMainLocked() {
		// Its end has been seen, so this is for a kernel that has not caught up.
		o.mu.Unlock()
		time.Sleep(time.Millisecond)
		o.mu.Lock()
	}
	if !t.looked {
		o.censusWithinLocked(settleAfter)
	}
	return t.exit
}

// reapMainLocked takes main's status, once. It is false while main has not ended.
func (t *Tree) reapMainLocked() bool {
	if t.reaped {
		return true
	}
	var status syscall.WaitStatus
	pid, err := wait(t.pid, &status, &t.exit.Rusage)
	switch {
	case err != nil:
		t.exit.Code = -1 // ECHILD: a wait4(-1) somewhere in this program has stolen it
	case pid != t.pid:
		return false
	case status.Signaled():
		t.exit.Signal = status.Signal()
	default:
		t.exit.Code = status.ExitStatus()
	}
	t.reaped = true
	t.reaps++
	delete(t.owner.mains, t.pid)
	unix.Close(t.pidfd)
	t.endLocked()
	return true
}

// noticeLocked closes Done if main has ended.
func (t *Tree) noticeLocked() {
	if !t.ended && ended(t.pid) {
		t.endLocked()
	}
}

func (t *Tree) endLocked() {
	if !t.ended {
		t.ended = true
		close(t.done)
	}
}

func (t *Tree) settleLocked() {
	if !t.looked {
		t.looked = true
		close(t.settled)
	}
}

// ended says that a child of ours has ended, and leaves it a zombie. One that
// is traced is its tracer's until that one lets go.
func ended(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	return err == unix.ECHILD || err == nil && info.Signo != 0
}

// wait reaps a child of ours, by its number and never any child: what another
// part of the program waits for is not ours to take. __WALL asks for children of
// every kind (wait(2)); today's kernels give what is adopted, and what is made
// with CLONE_PARENT, the usual exit signal anyway.
func wait(pid int, status *syscall.WaitStatus, usage *syscall.Rusage) (int, error) {
	for {
		got, err := syscall.Wait4(pid, status, syscall.WNOHANG|syscall.WALL, usage)
		if err != syscall.EINTR {
			return got, err
		}
	}
}
