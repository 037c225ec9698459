package process

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	clockEvery = 16 // processes between two looks at the clock
	maxPasses  = 8  // over our children in a row, while some are reaped
)

// kid is a direct child of ours that is not a main: adopted, or made by a main
// with CLONE_PARENT.
type kid struct {
	pid     int
	tag     uint64
	tree    *Tree // nil when its tag is no tree's
	foreign bool
	rogue   bool // it bears a number that nobody was given
	unsure  bool // it may be a main that is not in the books yet
	reaped  bool
}

// pass looks at all our children, under the lock from the first look to the
// last reap and the verdicts. It reaps what has ended and is no main, and kills
// rogues and what bears the tag of a condemned tree. judged are the trees whose
// table scan has just come to its end. It gives up when the deadline of a sweep
// has passed.
func (o *Owner) pass(judged []*Tree) {
	o.mu.Lock()
	whole := o.passLocked()
	for _, t := range judged {
		o.judgeLocked(t, whole)
	}
	news := o.news
	o.news = nil
	o.mu.Unlock()
	for _, p := range news {
		if o.options.OnRogue != nil {
			o.options.OnRogue(p)
		}
	}
}

func (o *Owner) passLocked() (whole bool) {
	for range maxPasses {
		// Asked before the list is read: a main that ends later may have just
		// handed us children that the list did not have yet.
		for _, t := range o.mains {
			if t.condemned {
				t.noticeLocked()
				t.look.mainEnded = t.ended
			}
		}
		if !o.listLocked() {
			return false
		}
		reaped := o.reapKidsLocked()
		if reaped == 0 {
			reaped = o.reapMainsLocked()
		}
		// Who was reaped may have had children, which are ours now.
		if reaped == 0 || len(o.sweeping) == 0 {
			return true
		}
	}
	return false
}

// reapMainsLocked reaps the mains of condemned trees that have nothing else left
// among our children: only then have main's number and its group done their
// duty.
func (o *Owner) reapMainsLocked() (reaped int) {
	for _, t := range o.mains {
		if t.condemned && t.look.mainEnded && t.look.kids == 0 && o.keeper.strays == 0 && t.reapMainLocked() {
			reaped++
			if t.sweep != nil {
				t.sweep.reaped++
			}
		}
	}
	return reaped
}

// listLocked fills keeper.kids, and kills on the way.
func (o *Owner) listLocked() (whole bool) {
	k, until := &o.keeper, o.deadlineLocked()
	k.kids = k.kids[:0]
	clear(k.direct)
	for _, t := range o.trees {
		t.look.kids = 0
	}
	pids, err := o.children.listLocked()
	if err != nil {
		return false
	}
	for i, pid := range pids {
		if i%clockEvery == clockEvery-1 && passed(until) {
			return false
		}
		k.direct[pid] = struct{}{}
		if t := o.mains[pid]; t != nil {
			t.noticeLocked()
			if t.condemned {
				o.killKid(pid)
			}
			continue
		}
		tag, err := o.kernel.tagOf(pid)
		d := kid{pid: pid}
		// Where it cannot be read: it cannot have gone, and it may not be ours to
		// kill, but nothing is proven while it is there.
		if err == nil {
			d = kid{pid: pid, tag: tag, tree: o.trees[tag], foreign: o.tags.foreign(tag)}
			d.rogue = d.tree == nil && !d.foreign
		}
		switch {
		case d.tree != nil && d.tree.pid == 0:
			continue // main itself, on its way into the books
		case d.tree != nil:
			d.tree.look.kids++
			if d.tree.condemned {
				o.killKid(pid)
			}
		}
		d.unsure = o.mayBeMainLocked(pid, err == nil)
		if d.rogue && !d.unsure {
			o.killRogueLocked(pid, tag)
		}
		k.kids = append(k.kids, d)
	}
	return true
}

func (o *Owner) killKid(pid int) { _ = o.signals.send(pinned(pid), unix.SIGKILL) }

func (o *Owner) killRogueLocked(pid int, tag uint64) {
	if _, known := o.rogues[pid]; !known {
		p, ok := describe(pid, tag)
		if !ok {
			p = Process{PID: pid, Tag: tag}
		}
		o.rogues[pid] = p
		o.news = append(o.news, p)
		o.tally.rogues++
	}
	o.killKid(pid)
}

// reapKidsLocked reaps those that have ended. It comes after all kills, which
// gives the first ones time to die.
func (o *Owner) reapKidsLocked() (reaped int) {
	k := &o.keeper
	k.strays, o.tally.foreign = 0, 0
	for i := range k.kids {
		d := &k.kids[i]
		if !d.unsure {
			var status syscall.WaitStatus
			pid, err := wait(d.pid, &status, nil)
			d.reaped = pid == d.pid || err != nil
		}
		switch {
		case !d.reaped && (d.tree != nil || d.foreign && d.unsure):
		case !d.reaped && d.foreign:
			o.tally.foreign++
		case !d.reaped:
			k.strays++
		default:
			reaped++
			o.reapedLocked(*d)
		}
	}
	return reaped
}

// reapedLocked accounts for a reaped child.
func (o *Owner) reapedLocked(d kid) {
	delete(o.keeper.direct, d.pid)
	delete(o.unsure, d.pid)
	o.tally.orphansReaped++
	t := d.tree
	switch {
	case t == nil && !d.foreign:
		delete(o.rogues, d.pid)
		o.tally.rogueReaps++
	case t != nil:
		t.reaps++
		t.look.kids--
		if t.sweep != nil {
			t.sweep.reaped++
		} else if t.reaped {
			o.censusWithinLocked(settleAfter) // it may have been the last
		}
	}
}

func passed(until time.Time) bool { return !until.IsZero() && time.Now().After(until) }
