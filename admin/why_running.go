package admin

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"execworker/daemon/observe"
)

// busy is the share of one CPU that counts as computing. What sleeps and polls
// stays below it.
const busy = 0.2

// running finds the process that everything else of the tree waits for.
func (in situation) running(x observe.Inflight, look *observe.Inspection) why {
	w := why{kind: string(observe.StateRunning), sentence: in.began(x)}
	if look == nil {
		w.sentence += "; " + in.unseen + "; " + in.output(x)
		return w
	}
	w.evidence = append(in.describeAll(look), in.holders(look.Pipes, x.PID, false)...)
	tree := familyOf(look)
	found, ends, ok := tree.culprit(look.Window)
	switch {
	case ok:
		w.kind = waitOf(found.process, look.Window).kind
		w.sentence += ": " + tree.tell(found, ends, look.Window)
	case len(look.Processes) > 0:
		w.sentence += "; its processes have ended and are not reaped yet"
	case len(look.Unreadable) > 0:
		w.kind = whyUnreadable
		w.sentence += "; its processes cannot be read here" + unreadable(look)
	default:
		w.sentence += "; " + unseenGone
	}
	w.sentence += "; " + in.output(x)
	return w
}

// unreadable is why something cannot be read, in brackets.
func unreadable(look *observe.Inspection) string {
	return " (" + cut(printable(few(look.Unreadable, 1)), 120) + ")"
}

// describeAll is a line for each process.
func (in situation) describeAll(look *observe.Inspection) (lines []string) {
	for _, p := range look.Processes {
		lines = append(lines, in.describe(p, look))
	}
	if look.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d processes more", look.More))
	}
	return lines
}

// describe is one process in a line.
func (in situation) describe(p observe.ProcessDetail, look *observe.Inspection) string {
	who := named(p.Process)
	if p.Main {
		who += " (main)"
	}
	line := who + ": " + waitOf(p, look.Window).full()
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

// dead says that a process has ended. One whose first thread alone has ended is
// shown as a zombie too, and lives on in the others (pthread_exit in main).
func dead(p observe.ProcessDetail) bool {
	return p.State == "X" || p.State == "Z" && p.Threads <= 1
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
		if dead(p) {
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

// end is where waits lead to.
type end struct {
	process observe.ProcessDetail
	// doubt is the first process on the way from main that may wait for something
	// else than a child; nil if there is none.
	doubt *observe.ProcessDetail
}

// culprit follows the waits from main down to where nobody waits for a child,
// and picks, of those ends, the one that explains most. ok is false if nothing
// lives.
func (f family) culprit(window time.Duration) (found end, ends int, ok bool) {
	var all []end
	if f.hasMain {
		all = f.ends(f.main, nil, window, make(map[int]bool))
	}
	if len(all) == 0 {
		for _, p := range f.all {
			all = append(all, end{process: p})
		}
	}
	if len(all) == 0 {
		return end{}, 0, false
	}
	return slices.MinFunc(all, func(a, b end) int {
		p, q := a.process, b.process
		return cmp.Or(
			cmp.Compare(waitOf(p, window).rank, waitOf(q, window).rank),
			cmp.Compare(q.InWindow, p.InWindow),
			q.StartedAt.Compare(p.StartedAt), // what was started last is what a script is at
			cmp.Compare(q.PID, p.PID),
		)
	}), len(all), true
}

// ends are where the waits from p down lead to.
func (f family) ends(p observe.ProcessDetail, doubt *observe.ProcessDetail, window time.Duration, seen map[int]bool) []end {
	if seen[p.PID] {
		return nil
	}
	seen[p.PID] = true
	children, wait := f.children[p.PID], waitOf(p, window)
	if len(children) == 0 || wait.child == childNo {
		return []end{{p, doubt}}
	}
	if wait.child == childMaybe && doubt == nil {
		doubt = &p
	}
	var found []end
	for _, child := range children {
		found = append(found, f.ends(child, doubt, window, seen)...)
	}
	return found
}

// tell says what the culprit waits for and how main depends on it. Which of
// several children a shell waits for the kernel does not show (it asks for any),
// so that is left open.
func (f family) tell(found end, ends int, window time.Duration) string {
	p := found.process
	wait := waitOf(p, window)
	switch {
	case p.Main:
		return fmt.Sprintf("main, %s, %s", named(p.Process), wait.full())
	case !f.hasMain:
		return named(p.Process) + " " + wait.full()
	case found.doubt != nil:
		who := "main"
		if !found.doubt.Main {
			who = named(found.doubt.Process)
		}
		return fmt.Sprintf("%s %s; %s %s, and may wait for it", named(p.Process), wait.phrase, who, waitOf(*found.doubt, window).phrase)
	case ends > 1:
		return fmt.Sprintf("%s %s, one of %d that main may wait for", named(p.Process), wait.full(), ends)
	}
	return fmt.Sprintf("%s %s, and main waits for it", named(p.Process), wait.full())
}

// stateOf is a state letter with its meaning.
func stateOf(letter string) string {
	meanings := map[string]string{
		"R": "R (runs)", "S": "S (sleeps)", "D": "D (sleeps, uninterruptible)", "T": "T (stopped)", "t": "t (traced)", "Z": "Z (ended, not reaped)",
	}
	if m, ok := meanings[letter]; ok {
		return m
	}
	return ascii(letter)
}
