package process

import (
	"time"
)

// census looks at all trees that are not being swept and whose main has been
// reaped, with one scan: for survivors, for the proof that there are none, and
// at those that a sweep could not end, which it kills at once more.
func (o *Owner) census() {
	k := &o.keeper
	k.trees = k.trees[:0]
	o.mu.Lock()
	o.plan.census = time.Time{}
	for _, t := range o.trees {
		if t.sweep == nil && (t.reaped || t.condemned) {
			k.trees = append(k.trees, t)
		}
	}
	o.mu.Unlock()
	if len(k.trees) == 0 {
		return
	}

	o.look(k.trees)

	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range k.trees {
		switch {
		case t.proven:
		case t.look.clean || !t.looked:
			o.censusWithinLocked(settleAfter)
		default:
			o.censusWithinLocked(censusEvery)
		}
	}
}

// censusWithinLocked plans a census, unless there will be one sooner.
func (o *Owner) censusWithinLocked(d time.Duration) {
	at := time.Now().Add(d)
	if o.plan.census.IsZero() || at.Before(o.plan.census) {
		o.plan.census = at
		o.wakeKeeper()
	}
}

// Members returns who bears the tree's tag now, and rogues whose parents do.
// It reads the whole table: some milliseconds where there are many processes.
// A main that has ended and was not released is not among them.
func (t *Tree) Members() []Process {
	var members []Process
	found, _ := t.owner.roll([]*Tree{t}, time.Time{})
	for _, m := range found[t] {
		members = append(members, m.describe())
	}
	return members
}

// met is a process that a scan has met.
type met struct {
	pid  int
	tag  uint64
	stat stat
	main bool // of the tree that it was met for
}

// roll finds the members of all trees with one scan: who bears the tag, main
// whatever it has done to its own, and strays that hang on those. It gives up at
// until, if that is set, and then returns what it has with errNoTime.
func (o *Owner) roll(trees []*Tree, until time.Time) (members map[*Tree][]met, err error) {
	table, err := openTable()
	if err != nil {
		return nil, err
	}
	defer table.close()
	o.mu.Lock()
	known := make(map[uint64]*Tree, len(o.trees)) // nil is one that was not asked for
	for tag := range o.trees {
		known[tag] = nil
	}
	mains := make(map[int]*Tree, len(trees))
	ended := make(map[int]bool)
	for _, t := range trees {
		known[t.tag] = t
		if !t.reaped {
			mains[t.pid] = t
			ended[t.pid] = t.ended
		}
	}
	o.mu.Unlock()

	members = make(map[*Tree][]met, len(trees))
	var strays []met // of no tree: somebody's who has changed his tag
	n := 0
	whole := table.each(func(e entry) bool {
		if n++; n%clockEvery == 0 && passed(until) {
			return false
		}
		pid := e.pid
		tag, err := o.kernel.tagOf(pid)
		if err != nil || pid == o.signals.self {
			return true
		}
		byTag, isKnown := known[tag]
		main := mains[pid]
		if ended[pid] {
			if byTag == main {
				return true
			}
			main = nil
		}
		stray := !isKnown && !o.tags.foreign(tag)
		if main == nil && byTag == nil && !stray {
			return true
		}
		s, err := o.kernel.statOf(pid)
		if err != nil {
			return true
		}
		m := met{pid: pid, tag: tag, stat: s}
		if main != nil {
			asMain := m
			asMain.main = true
			members[main] = append(members[main], asMain)
		}
		if byTag != nil && byTag != main {
			members[byTag] = append(members[byTag], m)
		}
		if main == nil && stray {
			strays = append(strays, m)
		}
		return true
	})
	for t, family := range members {
		members[t] = append(family, descendants(family, strays)...)
	}
	if !whole {
		return members, errNoTime
	}
	return members, nil
}

// descendants picks those of candidates that hang on parents, directly or by
// each other.
func descendants(parents, candidates []met) []met {
	if len(candidates) == 0 {
		return nil
	}
	family := make(map[int]bool, len(parents))
	for _, p := range parents {
		family[p.pid] = true
	}
	var found []met
	for again := true; again; {
		again = false
		for _, c := range candidates {
			if family[c.stat.ppid] && !family[c.pid] {
				family[c.pid] = true
				found = append(found, c)
				again = true
			}
		}
	}
	return found
}
