package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"
)

const (
	// maxPending is how many bytes of lines wait for the writer below.
	maxPending = 256 << 10
	// retryWrite is how long a writer that is only busy is left alone.
	retryWrite = 10 * time.Millisecond
)

// LineWriter passes lines on to a writer that may be slow, blocked or gone, and
// never makes its caller wait or fail. Each Write is one line. Lines that find
// no room, or that the writer below refuses, are dropped and counted; when it
// takes lines again, the first one says how many are missing.
//
// A write to a closed stderr also raises SIGPIPE, which ends a Go program
// unless the signal is caught: whoever makes a LineWriter of stderr catches it.
type LineWriter struct {
	below io.Writer
	wake  chan struct{} // holds one token when there is something to do
	done  chan struct{} // closed by the goroutine when it has ended

	mu      sync.Mutex // guards what follows
	pending [][]byte
	size    int   // bytes in pending
	dropped int64 // lines, all of them later than those in pending
	notice  func(dropped int64) []byte
	closed  bool
}

// NewLineWriter returns a LineWriter to w. It is to be closed.
func NewLineWriter(w io.Writer) *LineWriter {
	l := &LineWriter{
		below:  w,
		wake:   make(chan struct{}, 1),
		done:   make(chan struct{}),
		notice: plainNotice,
	}
	go l.run()
	return l
}

func plainNotice(dropped int64) []byte {
	return fmt.Appendf(nil, "%d log lines dropped\n", dropped)
}

// Write takes one line. It never blocks and always succeeds.
func (l *LineWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// After the first line dropped all are, until there is room again, so that
	// the notice stands where the gap is.
	if l.closed || l.dropped > 0 || l.size+len(line) > maxPending {
		l.dropped++
	} else {
		l.pending = append(l.pending, append([]byte(nil), line...))
		l.size += len(line)
	}
	l.wakeLocked()
	return len(line), nil
}

// Close passes on what is pending until ctx ends, then gives up on it. Lines
// written later are dropped.
func (l *LineWriter) Close(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	l.wakeLocked()
	l.mu.Unlock()
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close log: %w", context.Cause(ctx))
	}
}

// Fd is the descriptor of the writer below, or one that is none.
func (l *LineWriter) Fd() uintptr {
	if f, ok := l.below.(interface{ Fd() uintptr }); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}

func (l *LineWriter) setNotice(notice func(dropped int64) []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notice = notice
}

func (l *LineWriter) wakeLocked() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run is the only one who writes below.
func (l *LineWriter) run() {
	defer close(l.done)
	var missing int64 // lines dropped and not yet told of
	for range l.wake {
		for {
			l.mu.Lock()
			lines, dropped, notice, closed := l.pending, l.dropped, l.notice, l.closed
			l.pending, l.size, l.dropped = nil, 0, 0
			l.mu.Unlock()
			if len(lines) == 0 && dropped == 0 {
				if closed {
					return
				}
				break
			}
			missing = l.pass(lines, missing, notice) + dropped
			if missing > 0 && l.write(notice(missing)) {
				missing = 0
			}
		}
	}
}

// pass writes lines and returns how many are missing after them.
func (l *LineWriter) pass(lines [][]byte, missing int64, notice func(int64) []byte) int64 {
	for _, line := range lines {
		if missing > 0 && l.write(notice(missing)) {
			missing = 0
		}
		if missing > 0 || !l.write(line) {
			missing++
		}
	}
	return missing
}

// write reports whether all of line went out.
func (l *LineWriter) write(line []byte) bool {
	for {
		n, err := l.below.Write(line)
		line = line[n:]
		switch {
		case len(line) == 0:
			return true
		case errors.Is(err, syscall.EAGAIN):
			// Somebody who shares the terminal or pipe has made it non-blocking.
			time.Sleep(retryWrite)
		case err != nil || n == 0:
			return false
		}
	}
}
