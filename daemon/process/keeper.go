package process

import (
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

const (
	youngFor    = 10 * time.Millisecond // a main's life in which its end wakes nobody
	reapAfter   = 20 * time.Millisecond // SIGCHLD to the look at our children: one look for all that end meanwhile
	reapEvery   = time.Second           // and without a signal: who is adopted alive sends none
	settleAfter = 50 * time.Millisecond // Release to the look for survivors, for the same reason
	censusEvery = time.Second           // at trees that have survivors
)

// plan is when the keeper has to do what; zero is not at all.
type plan struct {
	round  time.Time // of the sweeps under way
	census time.Time // of the trees that were released
	reap   time.Time
}

// next is the earliest time in the plan.
func (p plan) next() time.Time {
	next := p.reap
	for _, t := range []time.Time{p.round, p.census} {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	return next
}

func due(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }

// keeperState belongs to the keeper alone.
type keeperState struct {
	table  *table
	kids   []kid            // unreaped children of the last pass, mains not included
	direct map[int]struct{} // their numbers, and the mains': pinned, so no fence
	wanted map[uint64]*Tree // by tag, what the scan looks for
	// Processes from outside all trees, as of the last scan and of this one. They
	// stay outside, so they need not be asked each time.
	outside, outsideNow map[entry]struct{}
	groups              map[int]int    // members of a tree met in this scan, by group
	trees               []*Tree        // that this look is about
	strays              int            // adopted rogues that the last pass left unreaped
	pause               time.Duration  // between rounds
	ends                chan os.Signal // SIGCHLD, while we listen
}

// keep is the keeper: the one goroutine that looks, kills and reaps. Only
// Release reaps beside it.
func (o *Owner) keep() {
	k := &o.keeper
	k.direct = make(map[int]struct{})
	k.wanted = make(map[uint64]*Tree)
	k.groups = make(map[int]int)
	k.outside = make(map[entry]struct{})
	k.outsideNow = make(map[entry]struct{})
	k.ends = make(chan os.Signal, 1)
	defer signal.Stop(k.ends)

	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		o.mu.Lock()
		p := o.plan
		o.mu.Unlock()
		switch {
		case due(p.round, now):
			o.round(now)
			continue
		case due(p.reap, now):
			o.reap()
			continue
		case due(p.census, now):
			o.census()
			continue
		}
		timer.Reset(p.next().Sub(now))
		select {
		case <-timer.C:
		case <-o.wake:
		case <-k.ends:
			o.heard()
		case <-o.closing:
			return
		}
	}
}

// reap is the regular look at our children.
func (o *Owner) reap() {
	o.pass(nil)
	o.expose(o.planReap())
}

// planReap plans the next regular look and returns the trees that have come of
// age since the last.
//
// It decides whether ends are listened for. Being woken for one costs several
// switches between threads, a fifth to a half of what a quick command costs this
// program. So the quick ones are met by this look, or by whoever waits in Ended;
// mains are watched and SIGCHLD is on only while a child has lived for a while.
func (o *Owner) planReap() (grown []*Tree) {
	o.mu.Lock()
	defer o.mu.Unlock()
	young, old := 0, len(o.keeper.kids)
	for _, t := range o.mains {
		switch {
		case t.ended:
		case time.Since(t.began) < youngFor:
			young++
		default:
			old++
			o.watchLocked(t)
			if t.exposed < 2 && len(o.sweeping) == 0 { // no sweep waits for that
				t.exposed++
				grown = append(grown, t)
			}
		}
	}
	next := reapEvery
	switch {
	case old > 0 && !o.listening:
		signal.Notify(o.keeper.ends, unix.SIGCHLD)
		o.listening = true
		next = reapAfter // something may have ended between the look and now
	case old == 0 && o.listening:
		signal.Stop(o.keeper.ends)
		o.listening = false
	}
	if young > 0 {
		next = youngFor
	}
	o.plan.reap = time.Now().Add(next)
	return grown
}

// heard is SIGCHLD.
func (o *Owner) heard() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.sweeping) > 0 {
		o.roundNowLocked()
	}
	o.reapWithinLocked(reapAfter)
}

func (o *Owner) reapWithinLocked(d time.Duration) {
	if at := time.Now().Add(d); at.Before(o.plan.reap) {
		o.plan.reap = at
		o.wakeKeeper()
	}
}
