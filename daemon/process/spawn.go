package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Command is what Spawn starts.
type Command struct {
	Path  string   // of the program; no search along PATH
	Args  []string // with the name first, as in os/exec; empty means just Path
	Dir   string   // empty means the directory of this program
	Env   []string
	Files [3]int // descriptors that become 0, 1, 2 of main; stay the caller's to close
	Extra []int  // descriptors that become 3 and so on; the caller's too
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

// spawnRequest goes to the spawner's thread and comes back as an answer.
type spawnRequest struct {
	command *Command
	answer  chan spawnAnswer
}

type spawnAnswer struct {
	tree *Tree
	err  error
}

// Spawn starts a command in a session of its own, under a tag of its own. When
// it returns, main runs. A failure is a *SpawnError, or ErrClosed.
func (o *Owner) Spawn(c Command) (*Tree, error) {
	r := spawnRequest{&c, make(chan spawnAnswer, 1)}
	select {
	case o.spawns <- r:
	case <-o.closing:
		return nil, ErrClosed
	}
	a := <-r.answer // the spawner answers everything it has taken
	if a.err != nil {
		return nil, a.err
	}
	return a.tree, nil
}

// spawn is the spawner: all children are forked by its one thread, which lives
// as long as the owner, because the kernel lists children by thread and hides
// them for a moment while the thread that forked them exits.
func (o *Owner) spawn(tid chan<- int) {
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	tid <- unix.Gettid()
	for {
		select {
		case r := <-o.spawns:
			r.answer <- o.fork(r.command)
		case <-o.closing:
			return
		}
	}
}

func (o *Owner) fork(c *Command) spawnAnswer {
	args := c.Args
	if len(args) == 0 {
		args = []string{c.Path}
	}
	pidfd := -1
	attr := syscall.ProcAttr{
		Dir: c.Dir,
		// And what the caller adds, no other: all of this program are close-on-exec.
		Files: []uintptr{uintptr(c.Files[0]), uintptr(c.Files[1]), uintptr(c.Files[2])},
		Sys:   &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
	}

	for _, fd := range c.Extra {
		attr.Files = append(attr.Files, uintptr(fd))
	}

	// From here to the entry the reaper must not look: it would take the child
	// for a stranger, and our own number for nobody's.
	o.mu.Lock()
	defer o.mu.Unlock()
	tag, err := o.tags.next()
	if err != nil {
		return spawnAnswer{err: &SpawnError{Step: "tag", Err: err}}
	}
	attr.Env = o.tags.environ(c.Env, tag)
	// ForkExec restores the signal mask and the soft open-file limit that this
	// program was started with, and reaps by number a child that could not exec.
	pid, err := syscall.ForkExec(c.Path, args, &attr)
	// Once more, or our own number would be that tree's. Should it fail, the
	// next spawn fails too, and until then nothing of ours is forked.
	_, lowerErr := o.tags.next()
	if err != nil {
		return spawnAnswer{err: spawnError(c, err)}
	}
	if pidfd < 0 {
		// Unknown to us from here on: no kernel that passed checkKernel does this.
		return spawnAnswer{err: &SpawnError{Step: "fork", Err: errors.New("no pidfd from clone")}}
	}
	t := newTree(o, pid, pidfd, tag)
	o.trees[tag] = t
	o.mains[pid] = t
	if lowerErr != nil {
		o.sweepLocked(t) // nobody will be handed it
		return spawnAnswer{err: &SpawnError{Step: "tag", Err: lowerErr}}
	}
	if o.options.Nice != 0 {
		// Best effort, before anybody else does anything, and by number, which
		// nobody but us can free: the thread itself could not lower it again
		// without privilege.
		_ = unix.Setpriority(unix.PRIO_PROCESS, pid, o.options.Nice)
	}
	o.reapWithinLocked(youngFor)
	return spawnAnswer{tree: t}
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

// oomScore is the oom_score_adj for mains: the kernel shall end them before it
// ends this program.
func oomScore() int {
	own := 0
	if b, err := os.ReadFile("/proc/self/oom_score_adj"); err == nil && len(b) > 1 {
		own, _ = strconv.Atoi(string(b[:len(b)-1]))
	}
	return min(1000, max(0, own)+100)
}

func (o *Owner) raiseOOMScore(pid int) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_, _ = unix.Write(fd, o.oomScore)
	unix.Close(fd)
}
