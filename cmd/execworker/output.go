package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	sandboxv1 "execworker/proto/sandbox/v1"
)

const (
	// maxUnwritten is how many bytes of output wait for whoever reads us.
	maxUnwritten = 1 << 20
	// stalled is how long a reader may take no byte once we are to end.
	stalled = time.Second
)

// output passes chunks on to our own streams, as they are and in their order. One
// goroutine writes, so that a reader who has stopped reading holds up that
// goroutine and nothing else.
//
//	caller.exec ──put──► waiting, at most maxUnwritten ──run──► stdout, stderr
//
// While the reader is slow, put waits, which slows the command down. Once hurry
// has been called nothing waits for the reader any more: what finds no room is
// lost, and everything after it, so that what was written is always a beginning.
type output struct {
	stdout, stderr io.Writer
	broken         func() // called once, after a write that failed

	wake    chan struct{} // holds one token when there is something to do
	room    chan struct{} // holds one token when there may be room again
	hurried chan struct{}
	hurry   func() // closes hurried
	done    chan struct{}

	mu       sync.Mutex // guards what follows
	waiting  []*sandboxv1.Chunk
	size     int // bytes of waiting and of the chunk being written
	lost     int64
	stdoutN  int64     // bytes of stdout taken by put
	progress time.Time // of the last byte that went out, or since when one waits
	first    time.Time // when the first chunk came
	closed   bool
	err      error
}

func newOutput(stdout, stderr io.Writer, broken func()) *output {
	o := &output{
		stdout: stdout, stderr: stderr, broken: broken,
		wake: make(chan struct{}, 1), room: make(chan struct{}, 1),
		hurried: make(chan struct{}), done: make(chan struct{}),
	}
	o.hurry = sync.OnceFunc(func() { close(o.hurried) })
	go o.run()
	return o
}

// put takes a chunk. Only one goroutine may call it.
func (o *output) put(c *sandboxv1.Chunk) {
	n := len(c.GetData())
	for {
		o.mu.Lock()
		fits := o.size == 0 || o.size+n <= maxUnwritten
		switch {
		case o.err != nil || o.lost > 0 || !fits && isClosed(o.hurried):
			o.lost += int64(n)
			o.mu.Unlock()
			return
		case fits:
			if o.size == 0 {
				o.progress = time.Now() // nobody was asked to read until now
			}
			if o.first.IsZero() {
				o.first = time.Now()
			}
			o.waiting = append(o.waiting, c)
			o.size += n
			if c.GetStream() != sandboxv1.Stream_STREAM_STDERR {
				o.stdoutN += int64(n)
			}
			o.mu.Unlock()
			give(o.wake)
			return
		}
		o.mu.Unlock()
		select {
		case <-o.room:
		case <-o.hurried:
		}
	}
}

// run is the only one who writes.
func (o *output) run() {
	defer close(o.done)
	for range o.wake {
		for {
			o.mu.Lock()
			if len(o.waiting) == 0 || o.err != nil {
				ended := o.closed || o.err != nil
				o.mu.Unlock()
				if ended {
					return
				}
				break
			}
			c := o.waiting[0]
			o.waiting[0] = nil
			o.waiting = o.waiting[1:]
			o.mu.Unlock()
			o.write(c)
		}
	}
}

// pieceSize is what is written at a time: a pipe or a terminal that takes it
// slowly is seen to take it.
const pieceSize = 4 << 10

func (o *output) write(c *sandboxv1.Chunk) {
	to, name := o.stdout, "stdout"
	if c.GetStream() == sandboxv1.Stream_STREAM_STDERR {
		to, name = o.stderr, "stderr"
	}
	for data := c.GetData(); len(data) > 0; {
		n, err := to.Write(data[:min(len(data), pieceSize)])
		if errors.Is(err, syscall.EAGAIN) {
			// Somebody who shares the terminal or pipe has made it non-blocking.
			err = nil
			time.Sleep(10 * time.Millisecond)
		}
		data = data[n:]
		o.mu.Lock()
		o.size -= n
		if n > 0 {
			o.progress = time.Now()
		}
		if err != nil {
			o.err = writeError(name, err)
		}
		o.mu.Unlock()
		give(o.room)
		if err != nil {
			o.broken()
			return
		}
	}
}

// close says that nothing more is put, and returns when everything is written,
// has failed, or, after hurry, no byte has gone out for a while. Until then it
// waits for as long as the reader takes; ctx ends it in any case. lost is how
// many bytes were not written.
func (o *output) close(ctx context.Context) (lost int64, err error) {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	give(o.wake)
	select {
	case <-o.done:
	case <-ctx.Done():
	case <-o.hurried:
		o.waitStalled(ctx, stalled)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost + int64(o.size), o.err
}

// waitStalled returns when no byte has gone out for d, counted from now at the
// earliest, or when everything has been written or ctx has ended.
func (o *output) waitStalled(ctx context.Context, d time.Duration) {
	for began := time.Now(); ; {
		o.mu.Lock()
		last := o.progress
		o.mu.Unlock()
		if last.Before(began) {
			last = began
		}
		left := time.Until(last.Add(d))
		if left <= 0 {
			return
		}
		select {
		case <-time.After(left):
		case <-o.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// stuck says whether output waits that nobody has taken a byte of for d.
func (o *output) stuck(d time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.size > 0 && time.Since(o.progress) >= d
}

// hurryAfter calls hurry when the command's time, which began with its first
// output at the latest, is over and nobody has read for patience since. Without
// that, the worker's answer would never come past what is waiting here.
func (o *output) hurryAfter(ctx context.Context, timeout, patience time.Duration) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		o.mu.Lock()
		first := o.first
		o.mu.Unlock()
		if !first.IsZero() && time.Since(first) >= timeout && o.stuck(patience) {
			o.hurry()
			return
		}
	}
}

// finish closes stdout: some file systems tell only then what went wrong.
func (o *output) finish() error {
	if f, isFile := o.stdout.(*os.File); isFile {
		if err := f.Close(); err != nil {
			return writeError("stdout", err)
		}
	}
	return nil
}

// isBrokenPipe says whether a write failed only because the reader has left.
func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

// toNowhere is how many bytes went to a stdout that may have been closed when we
// were started. The Go runtime has by then put /dev/null in its place, open for
// reading too, which a shell's >/dev/null is not. Other programs open it in that
// way to throw output away, so this is worth a line and no exit code.
func (o *output) toNowhere() int64 {
	o.mu.Lock()
	n := o.stdoutN
	o.mu.Unlock()
	f, isFile := o.stdout.(*os.File)
	if n == 0 || !isFile {
		return 0
	}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE != unix.O_RDWR {
		return 0
	}
	null, err := os.Stat(os.DevNull)
	if err != nil {
		return 0
	}
	if info, err := f.Stat(); err != nil || !os.SameFile(info, null) {
		return 0
	}
	return n
}

// writeError names the stream and not, as os does, the file that it may be.
func writeError(name string, err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	return fmt.Errorf("write %s: %w", name, err)
}

func give(token chan<- struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
