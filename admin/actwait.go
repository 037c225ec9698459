package admin

import (
	"net/http"
	"time"

	"execworker/daemon/observe"
)

// awaitEnd waits for the end of an execution that was in flight when me began to
// follow; nil when it takes too long.
func (s *Server) awaitEnd(w http.ResponseWriter, r *http.Request, me *follower, seq uint64, most time.Duration) (found *observe.Receipt) {
	s.await(w, r, me, most, func(e observe.Event) bool {
		ended, ok := e.(observe.Ended)
		if ok && ended.Receipt.Exec.Seq == seq {
			found = &ended.Receipt
		}
		return found != nil
	}, func() bool {
		for _, x := range s.worker.Receipts() {
			if x.Exec.Seq == seq {
				found = &x
			}
		}
		return found != nil
	})
	return found
}

// awaitGone waits until nothing is left of what these executions left, which was
// there when me began to follow. It empties left.
func (s *Server) awaitGone(w http.ResponseWriter, r *http.Request, me *follower, left map[uint64]bool, most time.Duration) bool {
	return s.await(w, r, me, most, func(e observe.Event) bool {
		if gone, ok := e.(observe.SurvivorsGone); ok {
			delete(left, gone.Exec.Seq)
		}
		return len(left) == 0
	}, func() bool {
		still := map[uint64]bool{}
		for _, x := range s.worker.Survivors() {
			still[x.Exec.Seq] = left[x.Exec.Seq]
		}
		for seq := range left {
			if !still[seq] {
				delete(left, seq)
			}
		}
		return len(left) == 0
	})
}

// await tells each of what happens after me began to follow, until it says that
// this was what it waited for. Where events are gone already, look says whether
// it was among them: a look at all there is costs too much to be had for each.
func (s *Server) await(w http.ResponseWriter, r *http.Request, me *follower, most time.Duration, each func(observe.Event) bool, look func() bool) bool {
	// The time for the answer begins when there is one.
	defer func() { _ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTime)) }()
	timer := time.NewTimer(most)
	defer timer.Stop()
	for seq := me.from; ; {
		newest := s.feed.Seq() // before the look: rather twice than never
		items, ok := s.feed.after(seq)
		if !ok {
			if look() {
				return true
			}
			seq = newest
			continue
		}
		for _, item := range items {
			seq = item.seq
			if each(item.event) {
				return true
			}
		}
		select {
		case <-me.wake:
		case <-timer.C:
			return false
		case <-r.Context().Done():
			return false
		}
	}
}
