package process

import (
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

const (
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
	groups map[int]int      // members of a tree met in this scan, by group
	trees  []*Tree          // that this look is about
	strays int              // adopted rogues that the last pass left unreaped
	pause  time.Duration    // between rounds
}

// keep is the keeper: the one goroutine that looks, kills and reaps. Only
// Release reaps beside it, and only a main that nobody sweeps.
func (o *Owner) keep() {
	o.keeper.direct = make(map[int]struct{})
	o.keeper.wanted = make(map[uint64]*Tree)
	o.keeper.groups = make(map[int]int)

	ends := make(chan os.Signal, 1)
	signal.Notify(ends, unix.SIGCHLD)
	defer signal.Stop(ends)
	heard := ends // nil while a look at our children is due anyway

	timer := time.NewTimer(reapEvery)
	defer timer.Stop()
	o.mu.Lock()
	o.plan.reap = time.Now().Add(reapEvery)
	o.mu.Unlock()
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
			o.pass(nil, time.Time{})
			heard = ends
			o.mu.Lock()
			o.plan.reap = time.Now().Add(reapEvery)
			o.mu.Unlock()
			continue
		case due(p.census, now):
			o.census()
			continue
		}
		timer.Reset(p.next().Sub(now))
		select {
		case <-timer.C:
		case <-o.wake:
		case <-heard:
			heard = nil
			o.mu.Lock()
			o.plan.reap = time.Now().Add(reapAfter)
			o.mu.Unlock()
		case <-o.closing:
			return
		}
	}
}
