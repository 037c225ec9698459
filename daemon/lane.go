package daemon

import (
	"sync"

	"execworker/daemon/runner"
	sandboxv1 "execworker/proto/sandbox/v1"
)

// lane is the way out of one exec: its chunks in order, then its terminal
// frame. It is guarded by its sender's lock.
type lane struct {
	s        *sender
	reqID    uint64
	room     sync.Cond
	chunks   []*chunk
	terminal *sandboxv1.WorkerFrame
	shut     bool // drop what is put
}

// lane opens the way out of an exec. Its close ends it.
func (s *sender) lane(reqID uint64) *lane {
	l := &lane{s: s, reqID: reqID}
	l.room.L = &s.mu
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.shut = s.dead; !l.shut {
		s.lanes[l] = struct{}{}
	}
	return l
}

// put takes slab over and returns an empty one. A small piece is copied behind
// the last chunk if that still waits: so small writes are gathered while the
// sender is busy, and only then. It waits while the lane is full, with waiting
// told before and after, and that ends with the session at the latest.
func (l *lane) put(stream runner.Stream, slab *runner.Slab, waiting func(bool)) *runner.Slab {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if !l.shut && l.appendLocked(stream, slab) {
		return reset(slab)
	}
	if l.fullLocked() {
		waiting(true)
		for l.fullLocked() {
			l.room.Wait()
		}
		waiting(false)
	}
	if l.shut {
		return reset(slab)
	}
	l.pushLocked(stream, slab)
	return runner.NewSlab()
}

func (l *lane) fullLocked() bool { return len(l.chunks) >= laneChunks && !l.shut }

// shutOff drops what is put from now on, and frees whoever waits for room. What
// was put before is still sent.
func (l *lane) shutOff() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.shut = true
	l.room.Broadcast()
}

// appendLocked copies slab behind the last chunk if it fits there.
func (l *lane) appendLocked(stream runner.Stream, slab *runner.Slab) bool {
	if len(l.chunks) == 0 {
		return false
	}
	last := l.chunks[len(l.chunks)-1]
	if last.stream != stream || len(*last.slab)+len(*slab) > runner.SlabSize {
		return false
	}
	*last.slab = append(*last.slab, *slab...)
	return true
}

func (l *lane) pushLocked(stream runner.Stream, slab *runner.Slab) {
	l.chunks = append(l.chunks, &chunk{reqID: l.reqID, stream: stream, slab: slab})
	if len(l.chunks) == 1 {
		l.s.turns = append(l.s.turns, l)
		l.s.signal()
	}
}

func (l *lane) takeLocked() *chunk {
	c := pop(&l.chunks)
	if len(l.chunks) == laneChunks-1 {
		l.room.Broadcast()
	}
	return c
}

// close hands in what was kept back until now, and the terminal frame, which is
// sent after every chunk of this lane and behind no other's.
func (l *lane) close(terminal *sandboxv1.WorkerFrame, kept ...[]*runner.Slab) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	for i, slabs := range kept {
		for _, slab := range slabs {
			if l.s.dead {
				slab.Free()
				continue
			}
			l.pushLocked([]runner.Stream{runner.Stdout, runner.Stderr}[i], slab)
		}
	}
	if l.s.dead || terminal == nil {
		return
	}
	l.terminal = terminal
	if len(l.chunks) == 0 {
		l.s.leaveLocked(l)
		l.s.signal()
	}
}

func (l *lane) dropLocked() {
	for _, c := range l.chunks {
		c.slab.Free()
	}
	l.chunks, l.shut = nil, true
	l.room.Broadcast()
}

func reset(s *runner.Slab) *runner.Slab {
	*s = (*s)[:0]
	return s
}
