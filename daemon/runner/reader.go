package runner

import (
	"errors"
	"os"
	"sync/atomic"
	"time"
)

const (
	quiet    = 250 * time.Millisecond // on empty pipes after main's end: the run is over
	lastCall = 2 * time.Second        // after main's end, not counting what the Output made us wait
	surplus  = 256 << 10              // bytes past what main left, from which on waiting for the Output counts too

	// Reads that bring less than smallRead are paced once burst of them came
	// in a row: what a command writes byte by byte is gathered in the pipe for
	// pace, which costs nobody a wake-up. The first ones are never delayed.
	smallRead = 4 << 10
	burst     = 16
	pace      = time.Millisecond
)

// Stream is one of the two outputs.
type Stream int

// The values are those of the file descriptors.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

func (s Stream) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// Output takes what a command writes. It is called from two goroutines, one a
// stream, in the order of each stream.
type Output interface {
	// Put takes s over, which is not empty, and returns an empty slab for the
	// next read: s itself if it has copied its content. It blocks while there
	// is no room, and that wait must end when nobody wants the output any more.
	Put(stream Stream, s *Slab) *Slab
}

// reader reads one output pipe from spawn to the end of the tree.
type reader struct {
	stream Stream
	file   *os.File
	out    Output
	end    *mainEnd
	tail   *tail
	over   func() // called when the command's own output is complete

	held    bool // set before over is called: the pipe was still open
	blocked time.Duration
	credit  int
	lastAt  time.Time
}

// mainEnd is shared by both readers of a run.
type mainEnd struct {
	at     atomic.Int64 // when main ended; 0 while it lives (Unix ns)
	lastAt atomic.Int64 // the newest output on either stream, or main's end
	busy   atomic.Int32 // readers inside Output.Put: a slow Output is not quiet
}

func (e *mainEnd) ended() bool { return e.at.Load() != 0 }

// run reads until the pipe ends. The run's output is complete before that if
// the pipe is held; over tells.
func (r *reader) run() {
	defer r.file.Close()
	slab := NewSlab()
	slab, eof := r.live(slab)
	if !eof {
		slab, eof = r.drain(slab)
	}
	r.held = !eof
	r.over()
	if !eof {
		r.keepDrained(slab)
	}
	slab.Free()
}

// live reads while main lives.
func (r *reader) live(slab *Slab) (_ *Slab, eof bool) {
	r.credit, r.lastAt = burst, time.Now()
	widened := false
	for !r.end.ended() {
		n, err := r.file.Read(slab.room())
		if n > 0 {
			slab.grow(n)
			if n == SlabSize && !widened {
				widened = true
				widen(r.file)
			}
			slab = r.out.Put(r.stream, slab)
			if n < smallRead {
				r.gather()
			}
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return slab, true
		}
	}
	return slab, false
}

// gather waits for pace if small reads have used up their burst.
func (r *reader) gather() {
	now := time.Now()
	r.credit = min(burst, r.credit+int(now.Sub(r.lastAt)/pace)) - 1
	r.lastAt = now
	if r.credit < 0 && !r.end.ended() {
		time.Sleep(pace)
	}
}

// drain reads what main left in the pipe, all of it, and then what still comes
// until it is quiet or time is up.
func (r *reader) drain(slab *Slab) (_ *Slab, eof bool) {
	for left := unread(r.file); left > 0; {
		n, err := readNow(r.file, slab.room())
		if n == 0 {
			if err == nil {
				return slab, true
			}
			break // EAGAIN: somebody else has read from our pipe
		}
		left -= n
		slab = r.put(slab, n)
	}

	start, extra := time.Now(), 0
	r.blocked = 0
	for {
		spent := time.Since(start)
		if extra < surplus {
			spent -= r.blocked
		}
		newest := time.Unix(0, r.end.lastAt.Load())
		if r.end.busy.Load() > 0 {
			newest = time.Now()
		}
		if spent >= lastCall || time.Since(newest) >= quiet {
			return slab, false
		}
		until := newest.Add(quiet)
		if last := time.Now().Add(lastCall - spent); last.Before(until) {
			until = last
		}
		_ = r.file.SetReadDeadline(until)
		n, err := r.file.Read(slab.room())
		if n > 0 {
			extra += n
			slab = r.put(slab, n)
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return slab, true
		}
	}
}

// put hands n bytes on, and remembers how long that took and when it was done.
func (r *reader) put(slab *Slab, n int) *Slab {
	slab.grow(n)
	before := time.Now()
	r.end.busy.Add(1)
	slab = r.out.Put(r.stream, slab)
	now := time.Now()
	r.end.lastAt.Store(now.UnixNano())
	r.end.busy.Add(-1)
	r.blocked += now.Sub(before)
	return slab
}

// keepDrained reads for the survivors' sake, until the last of them is gone or
// closes its end. Whoever closes the file ends it too.
func (r *reader) keepDrained(slab *Slab) {
	for {
		_ = r.file.SetReadDeadline(time.Time{})
		n, err := r.file.Read(slab.room())
		r.tail.write(slab.room()[:n])
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}

// afterMain tells both readers that main has ended: a waiting read looks again.
func (e *mainEnd) afterMain(files ...*os.File) {
	now := time.Now()
	e.lastAt.Store(now.UnixNano())
	e.at.Store(now.UnixNano())
	for _, f := range files {
		_ = f.SetReadDeadline(now.Add(-time.Second))
	}
}
