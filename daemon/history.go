package daemon

import (
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"execworker/daemon/observe"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	sessionsKept = 64
	receiptsKept = 256

	healthyAfter = 30 * time.Second // a session that lived so long resets the back-off
	suspectUnder = time.Second      // one that ended sooner does not, whatever it carried
)

// history is the newest of something, oldest first, up to a bound.
type history[T any] struct {
	most int

	mu  sync.Mutex
	all queue[T]
}

func (h *history[T]) add(v T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all.len() == h.most {
		h.all.pop()
	}
	h.all.push(v)
}

// newest returns a copy, newest first.
func (h *history[T]) newest() []T {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.Clone(h.all.all())
	slices.Reverse(all)
	return all
}

// change finds the newest that match and changes it in place.
func (h *history[T]) change(match func(T) bool, change func(*T)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.all.all()
	for i := len(all) - 1; i >= 0; i-- {
		if match(all[i]) {
			change(&all[i])
			return
		}
	}
}

// sessions is the session of now and those before it.
type sessions struct {
	past history[observe.Session]

	mu          sync.Mutex
	current     *session
	nextAttempt time.Time // zero unless waiting for it
}

func (h *sessions) begin(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current, h.nextAttempt = s, time.Time{}
}

// finish closes the record of s and files it.
func (h *sessions) finish(s *session, err error, lost int) observe.Session {
	s.note(func(r *observe.Session) {
		r.EndedAt = time.Now()
		r.ExecsLost = lost
		if err != nil && !errors.Is(err, io.EOF) {
			r.Detail = err.Error()
			if code := status.Code(err); code != codes.Unknown {
				r.Code = code.String()
			}
		}
		r.Healthy = healthy(*r, s.asked)
		r.EndReason = endReason(*r, err)
	})
	record := s.snapshot()
	h.past.add(record)
	h.mu.Lock()
	h.current = nil
	h.mu.Unlock()
	return record
}

func (h *sessions) wait(until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nextAttempt = until
}

// now returns the live session's record, if there is one, and when the next
// attempt is due otherwise.
func (h *sessions) now() (record *observe.Session, next time.Time) {
	h.mu.Lock()
	s, next := h.current, h.nextAttempt
	h.mu.Unlock()
	if s == nil {
		return nil, next
	}
	r := s.snapshot()
	return &r, next
}

// healthy says whether a session was good enough for the back-off to start
// over. A bad token, or a second worker under a live sandbox_id, gets a clean
// end of stream right away, so saying Hello alone proves nothing; nor does an
// Exec that ends its session at once, or by its size.
func healthy(r observe.Session, asked bool) bool {
	if r.HelloAt.IsZero() {
		return false
	}
	lived := r.EndedAt.Sub(r.HelloAt)
	if lived >= healthyAfter {
		return true
	}
	return asked && lived >= suspectUnder && r.Code != codes.ResourceExhausted.String()
}
