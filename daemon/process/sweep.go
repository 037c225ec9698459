package process

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	sweepAfter = time.Millisecond       // the first round, if main is not heard of before
	firstPause = 200 * time.Microsecond // after a round that has not proven everything
	lastPause  = 5 * time.Millisecond
	maxLeft    = 16                     // processes named when a sweep fails
	overtime   = 250 * time.Millisecond // when the deadline has passed and nobody can be named
)

// sweep is a sweep under way. Guarded by owner.mu.
type sweep struct {
	began    time.Time
	deadline time.Time
	overtime bool
	rounds   int
	reaped   int
	result   Sweep
	done     chan struct{}
}

// Sweep kills whatever is left of the tree, and reaps it, until it is proven
// that nothing is, or until the owner's SweepDeadline has passed. It works
// before and after Release; before it, main is reaped and Exit says how it
// ended, which is by itself if it had exited before the kill took effect. Calls
// at the same time share one sweep, and once the tree is gone it answers at
// once.
//
// After a sweep without proof the tree is looked at, and killed at, each second
// until it is gone.
func (t *Tree) Sweep() Sweep {
	o := t.owner
	o.mu.Lock()
	if t.proven {
		defer o.mu.Unlock()
		return Sweep{Exit: t.exit}
	}
	s := o.sweepLocked(t)
	o.mu.Unlock()
	// Most trees are one process, and what it takes it to die is all there is to
	// wait for: on this thread, which is the shortest way.
	t.Ended(time.Millisecond)
	o.mu.Lock()
	if t.sweep == s {
		o.roundNowLocked()
	}
	o.mu.Unlock()
	select {
	case <-s.done:
	case <-o.closing:
		return Sweep{Left: t.Members()}
	}
	return s.result
}

// sweepLocked starts the sweep of a tree, or finds the one under way.
func (o *Owner) sweepLocked(t *Tree) *sweep {
	if t.sweep != nil {
		return t.sweep
	}
	now := time.Now()
	t.sweep = &sweep{began: now, deadline: now.Add(o.options.SweepDeadline), done: make(chan struct{})}
	t.condemned = true
	o.sweeping = append(o.sweeping, t)
	o.killMainGroupLocked(t) // here, so that it does not wait for the keeper
	o.plan.round = now.Add(sweepAfter)
	o.wakeKeeper()
	return t.sweep
}

// killMainGroupLocked is the one kill that no fork can escape. The number is
// main's, and its group's, until main is reaped.
func (o *Owner) killMainGroupLocked(t *Tree) {
	if !t.reaped {
		_ = o.signals.send(groupOf(t.pid, t.pid), unix.SIGKILL)
	}
}

func (o *Owner) roundNowLocked() {
	o.plan.round = time.Now()
	o.wakeKeeper()
}

// round is one turn of all sweeps under way.
func (o *Owner) round(now time.Time) {
	k := &o.keeper
	o.mu.Lock()
	k.trees = append(k.trees[:0], o.sweeping...)
	before := 0
	for _, t := range k.trees {
		if t.sweep.rounds++; t.sweep.rounds == 1 {
			t.look.clean = false // a census may have looked long ago
		}
		before += t.sweep.reaped
		o.killMainGroupLocked(t)
	}
	o.plan.round = time.Time{}
	o.mu.Unlock()

	o.look(k.trees)

	o.mu.Lock()
	defer o.mu.Unlock()
	after, clean := 0, false
	for _, t := range k.trees {
		if t.sweep == nil {
			continue // proven
		}
		after += t.sweep.reaped
		clean = clean || t.look.clean
		if !time.Now().Before(t.sweep.deadline) {
			o.giveUpLocked(t)
		}
	}
	switch {
	case len(o.sweeping) == 0:
		return
	case clean:
		k.pause = 0 // the second look
	case after > before || k.pause == 0:
		k.pause = firstPause
	default:
		k.pause = min(2*k.pause, lastPause)
	}
	if next := time.Now().Add(k.pause); o.plan.round.IsZero() || next.Before(o.plan.round) {
		o.plan.round = next
	}
}

// deadlineLocked is the earliest of the sweeps under way, zero if there is none.
// Whatever the keeper does, a sweep waits for it, so it ends by then, and what
// it does without the lock asks again and again: a sweep may have begun meanwhile.
func (o *Owner) deadlineLocked() (until time.Time) {
	for _, t := range o.sweeping {
		if until.IsZero() || t.sweep.deadline.Before(until) {
			until = t.sweep.deadline
		}
	}
	return until
}

// late says that the keeper has to come to the end of what it does.
func (o *Owner) late() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return passed(o.deadlineLocked())
}

// giveUpLocked ends a sweep whose deadline has passed.
func (o *Owner) giveUpLocked(t *Tree) {
	left := o.leftLocked(t)
	if len(left) == 0 {
		// All that was seen has ended meanwhile, but nobody has looked twice.
		if !t.sweep.overtime {
			t.sweep.overtime = true
			t.sweep.deadline = time.Now().Add(overtime)
			return
		}
		left = []Process{{PID: t.pid, Name: "?", State: "?", Tag: t.tag}}
	}
	t.uncontained = true
	if t.ended {
		t.reapMainLocked() // whoever swept is told how it ended, and will not ask again
	}
	o.endSweepLocked(t, left)
	o.censusWithinLocked(censusEvery)
}

// leftLocked names who keeps a tree from being proven gone.
func (o *Owner) leftLocked(t *Tree) []Process {
	var left []Process
	name := func(pid int, tag uint64) {
		if p, ok := describe(pid, tag); ok && len(left) < maxLeft {
			left = append(left, p)
		}
	}
	if !t.ended {
		name(t.pid, t.tag)
	}
	for _, d := range o.keeper.kids {
		if !d.reaped && (d.tree == t || d.tree == nil && !d.foreign) {
			name(d.pid, d.tag)
		}
	}
	for _, pid := range t.look.met {
		if tag, err := o.kernel.tagOf(pid); err == nil && tag == t.tag {
			name(pid, tag)
		}
	}
	return left
}

func (o *Owner) endSweepLocked(t *Tree, left []Process) {
	s := t.sweep
	s.result = Sweep{Exit: t.exit, Rounds: s.rounds, Reaped: s.reaped, Left: left, Took: time.Since(s.began)}
	t.sweep = nil
	o.sweeping = slices.DeleteFunc(o.sweeping, func(other *Tree) bool { return other == t })
	t.settleLocked()
	close(s.done)
}
