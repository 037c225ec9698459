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
	until := o.deadlineLocked()
	o.mu.Unlock()
	if len(k.trees) == 0 {
		return
	}

	o.look(k.trees, until)

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
	o := t.owner
	table, err := openTable()
	if err != nil {
		return nil
	}
	defer table.close()
	o.mu.Lock()
	known := make(map[uint64]bool)
	for tag := range o.trees {
		known[tag] = true
	}
	main := t.pid // a member whatever it has done to its tag
	if t.reaped {
		main = 0
	}
	ended := t.ended
	o.mu.Unlock()

	var members []Process
	var strays []Process // of no tree: somebody's who has changed his tag
	table.each(func(e entry) bool {
		pid := e.pid
		tag, err := o.kernel.tagOf(pid)
		mine := tag == t.tag || pid == main
		if err != nil || pid == o.signals.self || ended && pid == main || !mine && (known[tag] || o.tags.foreign(tag)) {
			return true
		}
		p, ok := describe(pid, tag)
		switch {
		case !ok:
		case mine:
			members = append(members, p)
		default:
			strays = append(strays, p)
		}
		return true
	})
	return append(members, descendants(members, strays)...)
}

// descendants picks those of candidates that hang on parents, directly or by
// each other.
func descendants(parents, candidates []Process) []Process {
	family := make(map[int]bool, len(parents))
	for _, p := range parents {
		family[p.PID] = true
	}
	var found []Process
	for again := true; again; {
		again = false
		for _, c := range candidates {
			if family[c.PPID] && !family[c.PID] {
				family[c.PID] = true
				found = append(found, c)
				again = true
			}
		}
	}
	return found
}
