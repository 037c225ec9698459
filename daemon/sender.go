package daemon

import (
	"sync"

	sandboxv1 "execworker/proto/sandbox/v1"
)

const (
	// laneChunks bounds what one exec may have waiting to be sent, in slabs of
	// 32 KiB. Past it the exec's readers wait, and with them the command.
	laneChunks = 16
	// maxAnswers bounds the answers that belong to no lane. A relay that asks
	// on but takes no answers is wedged, and its session ends.
	maxAnswers = 1024
)

// sender decides what a session sends next. One goroutine calls next and sends;
// everybody else hands in. Terminal frames and answers go first, then the lanes take turns, one
// chunk each: an exec that floods delays another by one chunk a turn.
//
// It is of one session: nothing that was handed in is ever sent on a later one.
type sender struct {
	wake chan struct{} // of one place: something to send, or done

	mu        sync.Mutex // guards all below, and the lanes
	heartbeat bool
	terminals []*sandboxv1.WorkerFrame // of lanes whose chunks are sent: as many as execs in flight
	answers   []*sandboxv1.WorkerFrame // refusals and replays, which have no lane
	turns     []*lane                  // that have chunks, in order
	lanes     map[*lane]struct{}
	closing   bool // no more is coming: next ends when all is sent
	dead      bool // the session is over: drop everything
}

func newSender() *sender {
	return &sender{wake: make(chan struct{}, 1), lanes: make(map[*lane]struct{})}
}

// answer queues a frame that belongs to no running exec. It is false when there
// is no room for even that.
func (s *sender) answer(f *sandboxv1.WorkerFrame) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return true // nobody is there to be wedged
	}
	if len(s.answers) >= maxAnswers {
		return false
	}
	s.answers = append(s.answers, f)
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
	case len(s.terminals) > 0:
		return pop(&s.terminals), false
	case len(s.answers) > 0:
		return pop(&s.answers), false
	case len(s.turns) > 0:
		l := pop(&s.turns)
		c := l.takeLocked()
		if len(l.chunks) > 0 {
			s.turns = append(s.turns, l)
		} else if l.terminal != nil {
			s.leaveLocked(l)
		}
		return c, false
	}
	return nil, s.closing
}

// leaveLocked ends a lane: all its chunks are sent, so its terminal frame is
// next.
func (s *sender) leaveLocked(l *lane) {
	delete(s.lanes, l)
	s.terminals = append(s.terminals, l.terminal)
}

// finish lets next be done once everything that was handed in is sent.
func (s *sender) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	s.signal()
}

// kill drops everything and frees everybody who waits for room.
func (s *sender) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
	for l := range s.lanes {
		l.dropLocked()
	}
	s.lanes, s.turns, s.terminals, s.answers = nil, nil, nil, nil
	s.signal()
}

func (s *sender) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// pop takes the first element of a queue.
func pop[T any](queue *[]T) T {
	var zero T
	first := (*queue)[0]
	(*queue)[0] = zero // do not keep it alive
	*queue = (*queue)[1:]
	return first
}
