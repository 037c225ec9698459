package admin

import (
	"context"
	"sync"
	"time"

	"execworker/daemon/observe"
)

// feedKept is how many events are kept for those who come back, or fall behind.
const feedKept = 1024

// followersMost is how many may follow at a time, page and command line together.
const followersMost = 8

// Feed is the observer that hands events on. It keeps the last of them; whoever
// follows reads from there at his own pace, and one who falls behind gets a new
// snapshot. So nobody who follows can hold the worker up, and while nobody does,
// an event costs its place in the ring.
type Feed struct {
	mu        sync.Mutex
	last      uint64            // the seq of the newest; the first is 1
	ring      [feedKept]fedItem // the item with seq n is at n % feedKept
	denied    int64
	streams   int // followers that count
	followers map[*follower]struct{}
}

var _ observe.Observer = (*Feed)(nil)

// fedItem is one event with its place.
type fedItem struct {
	seq   uint64
	at    time.Time
	event observe.Event
}

// follower is told that there is something new.
type follower struct {
	wake    chan struct{} // one place; never closed
	from    uint64        // the newest seq when it began
	limited bool
}

// NewFeed makes a feed, which needs no closing.
func NewFeed() *Feed { return &Feed{followers: make(map[*follower]struct{})} }

// Begin adds nothing to ctx.
func (f *Feed) Begin(ctx context.Context, _ observe.Exec) context.Context { return ctx }

// Event keeps e for those who follow. How output grows they are told by
// exec.progress, at a pace of its own.
func (f *Feed) Event(_ context.Context, e observe.Event) {
	if _, grew := e.(observe.OutputGrew); grew {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now() // with the lock, so that times are in the order of seqs
	if denied, ok := e.(observe.AdminDenied); ok {
		f.denied += int64(denied.Times)
	}
	f.last++
	f.ring[f.last%feedKept] = fedItem{seq: f.last, at: now, event: e}
	for each := range f.followers {
		select {
		case each.wake <- struct{}{}:
		default: // it will look anyway
		}
	}
}

// Seq is the number of the newest event; 0 before the first.
func (f *Feed) Seq() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// Denied counts the requests of processes that came out of commands.
func (f *Feed) Denied() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.denied
}

// after returns what came after seq, oldest first. ok is false when some of it is
// not kept any more, or seq has not been yet: it is another worker's.
func (f *Feed) after(seq uint64) (items []fedItem, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if seq > f.last || f.last-seq > feedKept {
		return nil, false
	}
	for n := seq + 1; n <= f.last; n++ {
		items = append(items, f.ring[n%feedKept])
	}
	return items, true
}

// follow registers a follower, who must leave. It is nil when limited and too many
// follow; whoever waits for one event and is gone is not limited and does not
// count.
func (f *Feed) follow(limited bool) *follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	if limited {
		if f.streams >= followersMost {
			return nil
		}
		f.streams++
	}
	each := &follower{wake: make(chan struct{}, 1), from: f.last, limited: limited}
	f.followers[each] = struct{}{}
	return each
}

func (f *Feed) leave(each *follower) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if each.limited {
		f.streams--
	}
	delete(f.followers, each)
}
