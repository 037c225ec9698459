package process

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is what Spawn starts.
type Command struct {
	Path  string   // of the program; no search along PATH
	Args  []string // with the name first, as in os/exec; empty means just Path
	Dir   string   // empty means the directory of this program
	Env   []string
	Files [3]int // descriptors that become 0, 1, 2 of main; stay the caller's to close
	Extra []int  // descriptors that become 3 and so on (the runner hands a long command over so); the caller's too
}

// SpawnError says at which step a spawn failed. Unwrap gives the errno.
type SpawnError struct {
	Step string // tag, fork, chdir or exec
	Path string // what the step was about; empty for tag and fork
	Err  error
}

func (e *SpawnError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("spawn: %s: %v", e.Step, e.Err)
	}
	return fmt.Sprintf("spawn: %s %s: %v", e.Step, e.Path, e.Err)
}

func (e *SpawnError) Unwrap() error { return e.Err }

const clonePause = 20 * time.Microsecond // between looks for a flight's child

// gate lets one fork after the other take its number along. Our own number is
// that of the last one through, and must stay so until that one's child has
// been cloned and has inherited it. It need not stay until the child has
// executed its program, which takes several times as long.
type gate struct {
	mu      sync.Mutex
	waiting atomic.Int32 // in front of mu; whoever gets it changes our number
	flight  *flight      // the last one through
}

// flight is a spawn between its number and the entry of its main.
type flight struct {
	tree   *Tree
	forker atomic.Pointer[forker] // nil until the thread is settled
	back   atomic.Bool
	landed bool // its main is entered, or there is none; guarded by owner.mu
}

// Spawn starts a command in a session of its own, under a tag of its own. When
// it returns, main has executed its program. A failure is a *SpawnError, or
// ErrClosed.
func (o *Owner) Spawn(c Command) (*Tree, error) {
	select {
	case <-o.closing:
		return nil, ErrClosed
	default:
	}
	t := newTree(o)
	f, err := o.takeOff(t)
	if err != nil {
		return nil, &SpawnError{Step: "tag", Err: err}
	}
	if o.tags.carried() {
		// The number shows only once the program is executed, and no more when it
		// has ended: nobody may look until main is entered.
		o.mu.Lock()
	}
	pid, pidfd, err := o.forkExec(&c, f)
	if !o.tags.carried() {
		o.land(f)
		o.mu.Lock()
	}
	defer o.mu.Unlock()
	o.landedLocked(f)
	if err == nil && pidfd < 0 { // no kernel that passed checkKernel does this
		err = &SpawnError{Step: "fork", Err: errors.New("no pidfd from clone")}
	}
	t.forker = f.forker.Load()
	if err != nil {
		o.strikeLocked(t)
		return nil, err
	}
	if o.shielded {
		o.exposeOne(pid, t.tag)
	}
	t.pid, t.pidfd, t.began = pid, pidfd, time.Now()
	o.mains[pid] = t
	delete(o.unsure, pid)
	o.reapWithinLocked(youngFor)
	return t, nil
}

// takeOff gives t its number and makes it ours, for the next fork to inherit.
// From here on whoever looks at our children knows the number: a child with
// it may be a main that is still to be entered, and is left alone.
func (o *Owner) takeOff(t *Tree) (*flight, error) {
	g := &o.gate
	g.waiting.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.waiting.Add(-1)
	if g.flight != nil {
		o.awaitClone(g.flight)
	}
	tag, err := o.tags.next()
	if err != nil {
		return nil, err
	}
	t.tag = tag
	g.flight = &flight{tree: t}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.trees[tag] = t
	o.flights = append(o.flights, g.flight)
	return g.flight, nil
}

// awaitClone waits until the flight's child exists: it is in the list of the
// thread that forks it and bears the number, which nobody else can. Where it
// is not found, the wait is for the fork to return.
func (o *Owner) awaitClone(f *flight) {
	var pids []int
	for !f.back.Load() && !o.tags.carried() {
		if thread := f.forker.Load(); thread != nil {
			pids = thread.list(pids[:0])
		}
		for _, pid := range slices.Backward(pids) { // it is among the newest
			if tag, err := o.tags.of(pid); err == nil && tag == f.tree.tag {
				return
			}
		}
		pause(clonePause)
	}
}

// land takes our number back from the tree, so that it is never a tree's while
// nothing is forked. If somebody waits at the gate, he will.
func (o *Owner) land(f *flight) {
	f.back.Store(true)
	g := &o.gate
	if g.waiting.Load() > 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.flight == f {
		g.flight = nil
		// Should it fail, the next spawn fails for the same reason.
		_, _ = o.tags.next()
	}
}

func (o *Owner) forkExec(c *Command, f *flight) (pid, pidfd int, err error) {
	args := c.Args
	if len(args) == 0 {
		args = []string{c.Path}
	}
	pidfd = -1
	attr := syscall.ProcAttr{
		Dir: c.Dir,
		Env: o.tags.environ(c.Env, f.tree.tag),
		// And c.Extra, but no other: all of this program are close-on-exec.
		Files: []uintptr{uintptr(c.Files[0]), uintptr(c.Files[1]), uintptr(c.Files[2])},
		Sys:   &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
	}
	for _, fd := range c.Extra {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	// The kernel lists children by the thread that forked them. Nothing in here
	// waits for another goroutine: for a locked one that is dear.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := o.children.forker(unix.Gettid())
	f.forker.Store(thread)
	// ForkExec restores the signal mask and the soft open-file limit that this
	// program was started with, and reaps by number a child that could not exec.
	pid, err = syscall.ForkExec(c.Path, args, &attr)
	if err != nil {
		return 0, -1, spawnError(c, err)
	}
	thread.check(pid)
	if o.options.Nice != 0 {
		// Best effort, before anybody else does anything, and by number, which
		// nobody but us can free: the thread itself could not lower it again
		// without privilege.
		_ = unix.Setpriority(unix.PRIO_PROCESS, pid, o.options.Nice)
	}
	return pid, pidfd, nil
}

// strikeLocked takes a tree out of the books.
func (o *Owner) strikeLocked(t *Tree) {
	delete(o.trees, t.tag)
	t.forker.trees.Add(-1)
}

// spawnError finds the step that an errno of ForkExec belongs to: the child
// sends back a bare number, whether chdir or exec failed.
func spawnError(c *Command, err error) error {
	switch err {
	case unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE:
		return &SpawnError{Step: "fork", Err: err}
	}
	if c.Dir != "" {
		if err := enter(c.Dir); err != nil {
			return &SpawnError{Step: "chdir", Path: c.Dir, Err: err}
		}
	}
	return &SpawnError{Step: "exec", Path: c.Path, Err: err}
}

// enter finds out what chdir would say, without doing it.
func enter(dir string) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.X_OK, unix.AT_EACCESS)
}
