package runner

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"execworker/daemon/process"

	"golang.org/x/sys/unix"
)

// ErrTimeout is the cause of a kill because the command outlived its Timeout.
var ErrTimeout = errors.New("timeout")

// Command is what to run, and how.
type Command struct {
	Text    string        // for bash -c
	Stdin   []byte        // written to stdin, which then ends; not changed
	Dir     string        // where it runs; empty is where the worker runs
	Env     []string      // its whole environment
	Timeout time.Duration // from spawn; 0 is none
}

// Watcher is told of the turns a run takes, from the goroutine that Waits.
type Watcher interface {
	MainEnded()                 // main has ended by itself; its output may still be read
	Killing(cause error)        // its tree is being swept
	Killed(sweep process.Sweep) // the sweep is over: proven, or not
}

// Run is one command from its spawn to the end of its tree.
type Run struct {
	tree      *process.Tree
	timeout   time.Duration
	input     []byte
	startedAt time.Time
	pipes     [3]uint64
	end       mainEnd
	readers   [2]*reader
	reading   atomic.Int32  // readers whose output is not complete
	over      chan struct{} // closed when the output of both is
	stdin     *os.File      // nil when there is no input
	stdinDone chan struct{}
	tail      tail
}

// Result is how a run ended and what it took.
type Result struct {
	Exit process.Exit

	// ByItself: main ended by itself, whatever came after. What was done
	// decides, not the clock: a command that exited in the instant that its
	// timer fired has exited.
	ByItself bool
	Reaped   bool // main was; else Exit says nothing

	Cause   error         // of the kill, if there was one: ErrTimeout or the cause of the context
	Sweep   process.Sweep // of the kill
	Ran     time.Duration // from spawn to main's end
	Drained time.Duration // from main's end to the end of its output
	Killed  time.Duration // from the decision to the proof
	Held    bool          // something still held its output open when it was over
}

// Start spawns the command. Its errors are of type *process.SpawnError; nothing
// is left of a run that could not start. Nothing is read or written before the
// caller Waits, which it must.
func Start(owner *process.Owner, c Command, out Output) (*Run, error) {
	path, args, text, err := shell(c.Text)
	if err != nil {
		return nil, err
	}
	if text != nil {
		defer text.Close()
	}
	var fds [3]int // of the command, and closed once it has them
	defer func() {
		for _, fd := range fds {
			if fd > 0 {
				unix.Close(fd)
			}
		}
	}()
	r := &Run{timeout: c.Timeout, input: c.Stdin, over: make(chan struct{})}
	r.reading.Store(int32(len(r.readers)))
	ok := false
	defer func() {
		if !ok {
			r.closeFiles()
		}
	}()
	for i, stream := range []Stream{Stdout, Stderr} {
		var ours *os.File
		if ours, fds[stream], err = outPipe(); err != nil {
			return nil, &process.SpawnError{Step: "make pipe for " + stream.String(), Err: err}
		}
		r.readers[i] = &reader{stream: stream, file: ours, out: out, end: &r.end, tail: &r.tail, over: r.readerOver}
	}
	if len(c.Stdin) > 0 {
		r.stdin, fds[0], err = inPipe()
	} else {
		fds[0], err = unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, &process.SpawnError{Step: "make stdin", Err: err}
	}

	for stream, fd := range fds {
		if stream != 0 || r.stdin != nil {
			r.pipes[stream] = inode(fd)
		}
	}
	spawn := process.Command{Path: path, Args: args, Dir: c.Dir, Env: c.Env, Files: fds}
	if text != nil {
		spawn.Extra = []int{int(text.Fd())}
	}
	r.tree, err = owner.Spawn(spawn)
	if err != nil {
		return nil, err
	}
	ok = true
	r.startedAt = time.Now()
	return r, nil
}

// writeStdin writes all of it, or as much as the command wants: one that does
// not read its stdin has done nothing wrong.
func (r *Run) writeStdin() {
	defer close(r.stdinDone)
	_, _ = r.stdin.Write(r.input)
	_ = r.stdin.Close()
	r.input = nil
}

// readerOver is called by each reader when its output is complete.
func (r *Run) readerOver() {
	if r.reading.Add(-1) == 0 {
		close(r.over)
	}
}

func (r *Run) closeFiles() {
	for _, reader := range r.readers {
		if reader != nil {
			reader.file.Close()
		}
	}
	if r.stdin != nil {
		r.stdin.Close()
	}
}

// PID is main's.
func (r *Run) PID() int { return r.tree.PID() }

// Pipes are the inodes of main's stdin, stdout and stderr, as they were made; 0
// is no pipe: a command without input reads /dev/null. Both ends of a pipe have
// the same inode. They say nothing any more once the run is over and nothing of
// its tree is left.
func (r *Run) Pipes() [3]uint64 { return r.pipes }

// StartedAt is when main was spawned.
func (r *Run) StartedAt() time.Time { return r.startedAt }

// Tree is what the command started and all that came out of it. It can outlive
// the run: see process.Tree.Settled.
func (r *Run) Tree() *process.Tree { return r.tree }

// Tail is the last output of what the command left running (at most TailSize
// bytes), and the number of bytes that were dropped before it.
func (r *Run) Tail() ([]byte, int64) { return r.tail.snapshot() }

// Wait returns when the run is over: main has ended and its output has been
// put, all of it. When ctx ends or the timeout passes first, the tree is swept,
// and Wait returns after the proof, or with a Sweep that is not Proven. It must
// be called once.
func (r *Run) Wait(ctx context.Context, w Watcher) Result {
	for _, reader := range r.readers {
		go reader.run()
	}
	if r.stdin != nil {
		r.stdinDone = make(chan struct{})
		go r.writeStdin()
	}
	var res Result
	var timeout <-chan time.Time
	if r.timeout > 0 {
		timer := time.NewTimer(r.timeout - time.Since(r.startedAt))
		defer timer.Stop()
		timeout = timer.C
	}
	if cause := r.mainEnds(ctx, timeout); cause != nil {
		r.kill(&res, cause, w)
	}
	if res.Cause == nil {
		res.Exit, res.Reaped, res.ByItself = r.tree.Release(), true, true
		w.MainEnded()
	} else if res.Sweep.Proven() {
		res.Exit, res.Reaped = res.Sweep.Exit, true
		res.ByItself = res.Exit.Signal != unix.SIGKILL
	}
	ended := time.Now()
	res.Ran = ended.Sub(r.startedAt)
	r.end.afterMain(r.readers[0].file, r.readers[1].file)

	select {
	case <-r.over: // the readers end with their deadlines
	case <-ctx.Done():
		if res.Cause == nil {
			r.kill(&res, context.Cause(ctx), w)
		}
		<-r.over
	}
	res.Drained = time.Since(ended)
	r.finish(&res)
	return res
}

// nearEnd is how long main gets to end once its output has.
const nearEnd = 10 * time.Millisecond

// mainEnds waits for main's end, or returns why it is to be killed.
func (r *Run) mainEnds(ctx context.Context, timeout <-chan time.Time) (cause error) {
	over := r.over
	for {
		select {
		case <-over:
			// Nearly always main is about to end then, and the cheapest way to
			// learn of that is to wait right here.
			if r.tree.Ended(nearEnd) {
				return nil
			}
			over = nil // it has closed its output and lives on
		case <-r.tree.DoneLate():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timeout:
			return ErrTimeout
		}
	}
}

// kill sweeps the tree.
func (r *Run) kill(res *Result, cause error, w Watcher) {
	began := time.Now()
	w.Killing(cause)
	res.Cause = cause
	res.Sweep = r.tree.Sweep()
	res.Killed = time.Since(began)
	w.Killed(res.Sweep)
}

// finish ends stdin, and sees to it that a pipe that is still held is closed
// when nothing is left that could write to it.
func (r *Run) finish(res *Result) {
	if r.stdin != nil {
		_ = r.stdin.SetWriteDeadline(time.Now())
		<-r.stdinDone
	}
	res.Held = r.readers[0].held || r.readers[1].held
	if res.Held {
		go func() {
			<-r.tree.Gone()
			r.closeFiles()
		}()
	}
}
