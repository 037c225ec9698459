package process

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// examined is a Subject under examination.
type examined struct {
	Subject
	members []met        // main, and then the busiest
	family  map[int]bool // the same by number; true is main
	look    sample
	base    sample // to compare look with; empty if there is none
	gaps    gaps
	Inspection
}

// examine does the work of an inspection.
func (o *Owner) examine(ctx context.Context, q question, until time.Time) answer {
	members, err := o.roll(treesOf(q.subjects), until)
	all := make([]*examined, len(q.subjects))
	for i, s := range q.subjects {
		all[i] = &examined{Subject: s, members: members[s.Tree], family: make(map[int]bool)}
		all[i].compare(&o.inspector)
		if err != nil {
			all[i].gaps.add("the process table", err, 0)
		}
	}
	o.inspector.forget(time.Now())

	// All mains first: if there is no time for everything, each tree has its own.
	for rank := range listedMost {
		for _, s := range all {
			if rank < len(s.members) {
				s.examine(s.members[rank], passedOrDone(ctx, until))
			}
		}
	}
	nameLockHolders(all)
	if q.files {
		o.examinePipes(ctx, all, until)
	}
	a := answer{question: q, found: make(map[*Tree]Inspection, len(all)), cut: passedOrDone(ctx, until)}
	for _, s := range all {
		s.More = max(0, len(s.members)-listedMost)
		s.Unreadable = append(s.gaps.sentences(), s.Unreadable...)
		if err != nil || len(s.Processes)+len(s.Holders) > 0 {
			a.found[s.Tree] = s.Inspection
		}
	}
	return a
}

// compare takes the CPU times and brings the members into their order.
func (s *examined) compare(i *inspector) {
	s.look = take(s.members)
	s.At = s.look.at
	if base, ok := i.samples[s.Tree].base(s.At); ok {
		s.base, s.Window = base, s.At.Sub(base.at)
	}
	i.keep(s.Tree, s.look)
	for _, m := range s.members {
		s.family[m.pid] = m.main
	}
	slices.SortStableFunc(s.members, func(a, b met) int {
		return cmp.Or(
			compareTrue(a.main, b.main),
			-cmp.Compare(s.inWindow(a), s.inWindow(b)),
			-cmp.Compare(s.look.cpu[a.incarnation()], s.look.cpu[b.incarnation()]),
			cmp.Compare(a.pid, b.pid),
		)
	})
}

// compareTrue has true before false.
func compareTrue(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func (s *examined) inWindow(m met) time.Duration {
	if s.Window == 0 {
		return 0
	}
	used, _ := s.look.since(s.base, m)
	return used
}

// examine adds a member to what is listed.
func (s *examined) examine(m met, noTime bool) {
	d, ok := m.outline(), true
	if noTime {
		s.gaps.add("the details", errNoTime, m.pid)
	} else if d, ok = m.detail(&s.gaps); !ok {
		return
	}
	d.Main = m.main
	d.CPU = s.look.cpu[m.incarnation()]
	if s.Window > 0 {
		if d.InWindow, ok = s.look.since(s.base, m); !ok {
			s.gaps.add("the CPU time in the window", errNoTime, m.pid)
		}
	}
	s.Processes = append(s.Processes, d)
}
