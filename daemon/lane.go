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
	chunks   queue[*chunk]
	terminal *sandboxv1.WorkerFrame // to be sent when the chunks are
	shut     bool                   // drop what is put
	cut      bool                   // something was dropped while the session lived
}

// lane opens the way out of an exec.
func (s *sender) lane(reqID uint64) *lane {
	l := &lane{s: s, reqID: reqID}
	l.room.L = &s.mu
	return l
}

// put takes slab over and returns an empty one. A small piece is copied behind
// the last chunk if that still waits: so small writes are gathered while the
// sender is busy, and only then. It waits while the lane is full, with waiting
// told before and after, and that ends with the session at the latest.
func (l *lane) put(stream runner.Stream, slab *runner.Slab, waiting func(bool)) *runner.Slab {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if !l.shutLocked() && l.appendLocked(stream, slab) {
		return reset(slab)
	}
	l.waitLocked(laneChunks-1, waiting)
	if l.shutLocked() {
		l.cut = l.cut || !l.s.dead
		return reset(slab)
	}
	l.pushLocked(stream, slab)
	return runner.NewSlab()
}

// appendLocked copies slab behind the last chunk if it fits there.
func (l *lane) appendLocked(stream runner.Stream, slab *runner.Slab) bool {
	if l.chunks.len() == 0 {
		return false
	}
	last := l.chunks.all()[l.chunks.len()-1]
	if last.stream != stream || len(*last.slab)+len(*slab) > runner.SlabSize {
		return false
	}
	*last.slab = append(*last.slab, *slab...)
	return true
}

func (l *lane) pushLocked(stream runner.Stream, slab *runner.Slab) {
	l.chunks.push(&chunk{reqID: l.reqID, stream: stream, slab: slab})
	if l.chunks.len() == 1 {
		l.s.turns.push(l)
		l.s.signal()
	}
}

// waitLocked waits until there are at most so many chunks.
func (l *lane) waitLocked(most int, waiting func(bool)) {
	if l.chunks.len() <= most || l.shutLocked() {
		return
	}
	waiting(true)
	for l.chunks.len() > most && !l.shutLocked() {
		l.room.Wait()
	}
	waiting(false)
}

func (l *lane) takeLocked() *chunk {
	c := l.chunks.pop()
	l.room.Broadcast()
	return c
}

func (l *lane) shutLocked() bool { return l.shut || l.s.dead }

// flush hands in what was kept back until now, stdout's and stderr's, and waits
// until all chunks are on their way: until then the exec is in flight and has
// its slot. So what waits to be sent is bounded by the slots, and the answer to
// a redelivery never overtakes the output.
func (l *lane) flush(kept [2][]*runner.Slab, waiting func(bool)) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	for i, slabs := range kept {
		for _, slab := range slabs {
			if l.s.dead {
				slab.Free()
				continue
			}
			l.pushLocked(runner.Stdout+runner.Stream(i), slab)
		}
	}
	l.waitLocked(0, waiting)
}

// end sends the terminal frame, behind what there still is after a shutOff. It
// is false when there is no room for one more.
func (l *lane) end(terminal *sandboxv1.WorkerFrame) bool {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.s.dead || terminal == nil {
		return true
	}
	if l.s.terminals.len() >= maxAnswers {
		return false
	}
	l.terminal = terminal
	l.leaveLocked()
	return true
}

// leaveLocked sends the terminal frame if it is time for that.
func (l *lane) leaveLocked() {
	if l.terminal != nil && l.chunks.len() == 0 {
		l.s.terminals.push(l.terminal)
		l.terminal = nil
		l.s.signal()
	}
}

// shutOff drops what is put from now on, and frees whoever waits. What was put
// before is still sent.
func (l *lane) shutOff() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.shut = true
	l.room.Broadcast()
}

// lost says that output was dropped although the session lived.
func (l *lane) lost() bool {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.cut
}

// dropLocked lets go of the chunks, at the end of the session.
func (l *lane) dropLocked() {
	for l.chunks.len() > 0 {
		l.chunks.pop().slab.Free()
	}
	l.room.Broadcast()
}

func reset(s *runner.Slab) *runner.Slab {
	*s = (*s)[:0]
	return s
}
