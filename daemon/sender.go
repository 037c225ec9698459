package daemon

import (
	"sync"

	sandboxv1 "execworker/proto/sandbox/v1"
)

const (
	// laneChunks bounds what one exec may have waiting to be sent, in slabs of
	// 32 KiB. Past it the exec's readers wait, and with them the command.
	laneChunks = 16
	// maxAnswers bounds the terminal frames that wait, and apart from them the
	// answers to what never ran. A relay that asks on but takes neither is
	// wedged, and its session ends.
	maxAnswers = 1024
)

// sender decides what a session sends next. One goroutine calls next and sends;
// everybody else hands in. Terminal frames and answers go first, then the lanes
// take turns, one chunk each: an exec that floods delays another by one chunk a
// turn.
//
// It is of one session: nothing that was handed in is ever sent on a later one.
type sender struct {
	wake chan struct{} // of one place: something to send, or done

	mu        sync.Mutex // guards all below, and the lanes
	heartbeat bool
	terminals queue[*sandboxv1.WorkerFrame] // of lanes whose chunks are sent
	answers   queue[*sandboxv1.WorkerFrame] // to what never ran
	turns     queue[*lane]                  // that have chunks
	closing   bool                          // no more is coming: next ends when all is sent
	dead      bool                          // the session is over: drop everything
}

func newSender() *sender { return &sender{wake: make(chan struct{}, 1)} }

// answer queues a frame of an exec that never ran. It is false when there is no
// room for even that.
func (s *sender) answer(f *sandboxv1.WorkerFrame) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead || f == nil {
		return true // nobody is there to be wedged
	}
	if s.answers.len() >= maxAnswers {
		return false
	}
	s.answers.push(f)
	s.signal()
	return true
}

// beat asks for a heartbeat. One that is still waiting serves for both.
func (s *sender) beat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heartbeat = true
	s.signal()
}

// next returns the next frame to send, a *chunk or a *sandboxv1.WorkerFrame;
// nil when there is none now, and done when there never will be one.
func (s *sender) next() (frame any, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.dead:
		return nil, true
	case s.heartbeat:
		s.heartbeat = false
		return heartbeatFrame(), false
	case s.terminals.len() > 0:
		return s.terminals.pop(), false
	case s.answers.len() > 0:
		return s.answers.pop(), false
	case s.turns.len() > 0:
		l := s.turns.pop()
		c := l.takeLocked()
		if l.chunks.len() > 0 {
			s.turns.push(l)
		}
		l.leaveLocked()
		return c, false
	}
	return nil, s.closing
}

// finish lets next be done once everything that was handed in is sent.
func (s *sender) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	s.signal()
}

// kill drops everything and frees everybody who waits.
func (s *sender) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
	for _, l := range s.turns.all() { // whoever waits has chunks
		l.dropLocked()
	}
	s.turns, s.terminals, s.answers = queue[*lane]{}, queue[*sandboxv1.WorkerFrame]{}, queue[*sandboxv1.WorkerFrame]{}
	s.signal()
}

func (s *sender) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
