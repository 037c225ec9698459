package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"execworker/daemon/observe"
)

// busy is the share of one CPU that counts as computing. What sleeps and polls
// stays below it.
const busy = 0.2

// running finds the process that everything else of the tree waits for.
func (in situation) running(x observe.Inflight, look *observe.Inspection) why {
	if look == nil || len(look.Processes) == 0 {
		w := why{kind: whyUnreadable, sentence: in.began(x) + "; its processes cannot be read here; " + in.output(x)}
		if look != nil {
			w.evidence = look.Unreadable
		}
		return w
	}
	tree := familyOf(look)
	culprit := tree.culprit(look.Window)
	wait := waitOf(culprit, look.Window)
	w := why{kind: wait.kind, sentence: in.began(x) + ": "}
	switch {
	case culprit.Main:
		w.sentence += fmt.Sprintf("main, %s, %s", named(culprit.Process), wait.phrase)
	case tree.hasMain:
		w.sentence += fmt.Sprintf("%s %s, and main waits for it", named(culprit.Process), wait.phrase)
	default:
		w.sentence += fmt.Sprintf("%s %s", named(culprit.Process), wait.phrase)
	}
	w.sentence += "; " + in.output(x)
	for _, p := range look.Processes {
		w.evidence = append(w.evidence, in.describe(p, look))
	}
	if look.More > 0 {
		w.evidence = append(w.evidence, fmt.Sprintf("and %d processes more", look.More))
	}
	for _, h := range look.Pipes {
		w.evidence = append(w.evidence, in.holder(h))
	}
	w.evidence = append(w.evidence, look.Unreadable...)
	return w
}

// describe is one process in a line.
func (in situation) describe(p observe.ProcessDetail, look *observe.Inspection) string {
	who := named(p.Process)
	if p.Main {
		who += " (main)"
	}
	line := who + ": " + waitOf(p, look.Window).phrase
	if look.Window > 0 {
		line += fmt.Sprintf(", CPU %.0f %%", share(p, look.Window)*100)
	}
	return line
}

func share(p observe.ProcessDetail, window time.Duration) float64 {
	if window <= 0 {
		return 0
	}
	return float64(p.InWindow) / float64(window)
}

// family is a tree's living processes and who is whose child.
type family struct {
	all      []observe.ProcessDetail
	children map[int][]observe.ProcessDetail
	main     observe.ProcessDetail
	hasMain  bool
}

func familyOf(look *observe.Inspection) family {
	f := family{children: make(map[int][]observe.ProcessDetail)}
	for _, p := range look.Processes {
		if p.State == "Z" || p.State == "X" { // it waits for nothing any more
			continue
		}
		f.all = append(f.all, p)
		f.children[p.PPID] = append(f.children[p.PPID], p)
		if p.Main {
			f.main, f.hasMain = p, true
		}
	}
	return f
}

// culprit follows the waits from main down to where nobody waits for a child,
// and picks, of those, the one that explains most.
func (f family) culprit(window time.Duration) observe.ProcessDetail {
	ends := f.all
	if f.hasMain {
		ends = f.ends(f.main, window, make(map[int]bool))
	}
	if len(ends) == 0 { // all are zombies
		return observe.ProcessDetail{Process: observe.Process{State: "Z"}, FD: -1}
	}
	return slices.MinFunc(ends, func(a, b observe.ProcessDetail) int {
		return cmp.Or(
			cmp.Compare(waitOf(a, window).rank, waitOf(b, window).rank),
			cmp.Compare(b.InWindow, a.InWindow),
			b.StartedAt.Compare(a.StartedAt), // what was started last is what a script is at
			cmp.Compare(b.PID, a.PID),
		)
	})
}

// ends are where the waits from p down lead to.
func (f family) ends(p observe.ProcessDetail, window time.Duration, seen map[int]bool) []observe.ProcessDetail {
	if seen[p.PID] {
		return nil
	}
	seen[p.PID] = true
	children := f.children[p.PID]
	wait := waitOf(p, window)
	if len(children) == 0 || !wait.forChild {
		return []observe.ProcessDetail{p}
	}
	var found []observe.ProcessDetail
	for _, child := range children {
		found = append(found, f.ends(child, window, seen)...)
	}
	return found
}

// wait is what a process waits for, in words.
type wait struct {
	kind     string
	phrase   string
	rank     int  // the lower, the more it explains
	forChild bool // it may be a child that it waits for
}

// waitOf says what a process waits for, from its state, the system call that it
// is in, and the kernel's wait channel; whichever of them can be read.
func waitOf(p observe.ProcessDetail, window time.Duration) wait {
	used := share(p, window)
	switch {
	case p.State == "T":
		return wait{kind: whyStopped, rank: 0, phrase: "is stopped (state T) and goes on with SIGCONT"}
	case p.State == "t":
		return wait{kind: whyStopped, rank: 0, phrase: "is held by a tracer (state t)"}
	case used >= busy:
		return wait{kind: whyCPU, rank: 2, phrase: fmt.Sprintf("computes: it used %.0f %% of a CPU in the last %s", used*100, age(window))}
	case p.State == "D":
		return wait{kind: whyDisk, rank: 1, phrase: "is in a wait that no signal ends (state D)" + in(p)}
	case p.State == "R" && p.Call == "" && p.WaitsIn == "":
		return wait{kind: whyCPU, rank: 3, phrase: "is on a CPU or ready for one (state R)"}
	}
	return waitIn(p)
}

// in names where in the kernel a process sleeps.
func in(p observe.ProcessDetail) string {
	var where []string
	for _, part := range []string{p.Call, p.WaitsIn} {
		if part != "" {
			where = append(where, ascii(part))
		}
	}
	if len(where) == 0 {
		return " (where cannot be read here)"
	}
	return " (" + strings.Join(where, ", ") + ")"
}

// stateOf is a state letter with its meaning.
func stateOf(letter string) string {
	meanings := map[string]string{
		"R": "R (runs)", "S": "S (sleeps)", "D": "D (sleeps, and no signal ends that)", "T": "T (stopped)", "t": "t (traced)", "Z": "Z (dead, not reaped)",
	}
	if m, ok := meanings[letter]; ok {
		return m
	}
	return ascii(letter)
}
