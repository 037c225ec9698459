package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// look is what the keeper's last look found of a tree. Touched by the keeper
// only.
type look struct {
	mainEnded bool  // and main is not reaped
	kids      int   // children of ours that bear the tag, main not included
	met       []int // living ones in the table that are not children of ours
	inTable   int   // how many were met in this scan
	kill      bool  // the tree is condemned
	reaps     int64 // that count against a proof, when the scan began
	clean     bool  // the last look found nothing
	cleanAt   int64 // reaps then
}

const maxSignalled = 256 // in one scan: then our children come first again

// look looks for trees among our children and in the table, kills what it finds
// of those that are condemned, and ends with the verdict on each. The second
// pass is what the verdict rests on: a child that came to us behind the scan's
// back is in it.
func (o *Owner) look(trees []*Tree) {
	o.pass(nil)
	whole := o.scan(trees)
	if o.kernel.afterScan != nil {
		o.kernel.afterScan()
	}
	if !whole {
		for _, t := range trees {
			t.look.clean = false
		}
		return
	}
	o.pass(trees)
}

// scan reads the whole table once for all trees. The fence makes it safe
// without the lock.
func (o *Owner) scan(trees []*Tree) (whole bool) {
	k := &o.keeper
	clear(k.wanted)
	clear(k.groups)
	o.mu.Lock()
	for _, t := range trees {
		if !t.proven {
			k.wanted[t.tag] = t
			t.look.met, t.look.inTable = t.look.met[:0], 0
			t.look.kill = t.condemned
			t.look.reaps = o.reapsLocked(t)
		}
	}
	o.mu.Unlock()
	self, n, signalled := os.Getpid(), 0, 0
	k.outside, k.outsideNow = k.outsideNow, k.outside
	clear(k.outsideNow)
	return k.table.each(func(e entry) bool {
		if n++; n%clockEvery == 0 && o.late() {
			return false
		}
		pid := e.pid
		if _, direct := k.direct[pid]; direct || pid == self {
			return true
		}
		if _, known := k.outside[e]; known {
			k.outsideNow[e] = struct{}{}
			return true
		}
		tag, err := o.kernel.tagOf(pid)
		if err != nil {
			return true
		}
		if o.tags.foreign(tag) {
			k.outsideNow[e] = struct{}{}
			return true
		}
		t := k.wanted[tag]
		switch {
		case t == nil:
		case !t.look.kill:
			if t.look.inTable == 0 && o.meetFenced(pid, tag) == foundAlive {
				t.look.meet(pid)
			}
		case signalled == maxSignalled:
			t.look.meet(pid)
		default:
			signalled++
			if o.killMet(t, pid) {
				t.look.meet(pid)
			}
		}
		return true
	})
}

func (l *look) meet(pid int) {
	l.inTable++
	if len(l.met) < maxLeft {
		l.met = append(l.met, pid)
	}
}

// killMet kills a process of a condemned tree, and its group if it is not the
// only member that this scan has met: most groups are of one.
func (o *Owner) killMet(t *Tree, pid int) (alive bool) {
	if group, err := unix.Getpgid(pid); err == nil && group != t.pid {
		o.keeper.groups[group]++
		if o.keeper.groups[group] == 2 && o.killGroup(pid, group, t.tag) {
			return true
		}
	}
	return o.killFenced(pid, t.tag, unix.SIGKILL) == foundAlive
}

// reapsLocked counts the reaps that spoil a look at t: those of its own
// processes, and those of rogues, which may have been anybody's.
func (o *Owner) reapsLocked(t *Tree) int64 { return t.reaps + o.tally.rogueReaps }

// judgeLocked says after a whole scan and a pass what they come to. The proof
// is two looks in a row that found nothing, with no reap during or between
// them.
func (o *Owner) judgeLocked(t *Tree, whole bool) {
	if t.proven {
		return
	}
	l := &t.look
	reaps := o.reapsLocked(t)
	if t.reaped && whole && l.kids+l.inTable > 0 {
		t.settleLocked()
	}
	nothing := whole && t.reaped && l.kids == 0 && l.inTable == 0 && o.keeper.strays == 0 && l.reaps == reaps
	switch {
	case !nothing:
		l.clean = false
	case !l.clean || l.cleanAt != reaps:
		l.clean, l.cleanAt = true, reaps
	default:
		o.goneLocked(t)
	}
}

func (o *Owner) goneLocked(t *Tree) {
	t.proven, t.uncontained = true, false
	o.strikeLocked(t)
	t.settleLocked()
	close(t.gone)
	if t.sweep != nil {
		o.endSweepLocked(t, nil)
	}
}
