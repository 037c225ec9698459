package daemon

import (
	"os"
	"strconv"
	"sync"
	"time"

	"execworker/daemon/observe"
	"execworker/daemon/runner"
)

// survivorTrees is how many trees of survivors are kept. What the next one
// leaves is swept.
const survivorTrees = 32

// survivors is what commands left running when they ended by themselves, so
// that none of it lives on unlisted.
type survivors struct {
	receipts *history[observe.Receipt]
	over     chan struct{} // closed by end: what is left now stays

	mu    sync.Mutex
	sweep bool                // keep none
	trees map[uint64]survivor // by the execution's Seq
}

type survivor struct {
	exec  observe.Exec
	run   *runner.Run
	since time.Time
	kept  bool          // else it is being swept, or could not be
	wish  chan struct{} // of one place: somebody wants it swept
}

// follow returns when nothing of the run's tree is left, or, after end, when
// there is nothing more to be done about it. Looking for survivors costs a look
// at the process table, so the tree is looked at some time after its terminal
// frame, together with others.
//
// What a kill could not end is listed too, until it is gone, but is not kept.
func (s *survivors) follow(x *execution, run *runner.Run, uncontained bool) {
	tree := run.Tree()
	select {
	case <-tree.Settled():
	case <-s.over: // nobody will keep what it has left
		tree.Sweep()
		return
	}
	select {
	case <-tree.Gone():
		return
	default:
	}
	kept, wish := s.add(x.exec, run, uncontained)
	defer func() {
		s.remove(x.exec.Seq)
		x.event(observe.SurvivorsGone{Exec: x.exec})
	}()
	if !uncontained {
		found := processes(tree.Members())
		s.receipts.change(
			func(r observe.Receipt) bool { return r.Exec.Seq == x.exec.Seq },
			func(r *observe.Receipt) { r.Survivors, r.SurvivorsCut = found, !kept },
		)
		x.event(observe.SurvivorsFound{Exec: x.exec, Processes: found, Kept: kept})
		if !kept {
			tree.Sweep()
		}
	}
	for {
		select {
		case <-tree.Gone():
			return
		case <-s.over:
			return
		case <-wish:
			tree.Sweep()
		}
	}
}

// abort asks whoever follows the tree to sweep it. Until that is done it is not
// kept, so another may be in its place.
func (s *survivors) abort(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.trees[seq]
	if !ok {
		return false
	}
	t.kept = false
	s.trees[seq] = t
	select {
	case t.wish <- struct{}{}:
	default: // one that is still to be granted serves for both
	}
	return true
}

func (s *survivors) add(x observe.Exec, run *runner.Run, uncontained bool) (kept bool, wish <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	trees := 0
	for _, t := range s.trees {
		if t.kept {
			trees++
		}
	}
	kept = !uncontained && !s.sweep && trees < survivorTrees
	t := survivor{exec: x, run: run, since: time.Now(), kept: kept, wish: make(chan struct{}, 1)}
	s.trees[x.Seq] = t
	return kept, t.wish
}

func (s *survivors) remove(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.trees, seq)
}

func (s *survivors) all() []survivor {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]survivor, 0, len(s.trees))
	for _, t := range s.trees {
		all = append(all, t)
	}
	return all
}

func (s *survivors) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.trees)
}

// snapshot reads the process table once for each tree.
func (s *survivors) snapshot() []observe.Survivors {
	var list []observe.Survivors
	for _, t := range s.all() {
		tail, cut := t.run.Tail()
		list = append(list, observe.Survivors{
			Exec: t.exec, Since: t.since, Processes: processes(t.run.Tree().Members()), Tail: tail, TailCut: cut,
		})
	}
	return list
}

// directories lists where survivors are.
func (s *survivors) directories() []string {
	var dirs []string
	for _, t := range s.all() {
		for _, p := range t.run.Tree().Members() {
			if dir, err := os.Readlink("/proc/" + strconv.Itoa(p.PID) + "/cwd"); err == nil {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// end sweeps them all, side by side, and returns when that is done. What is
// found after that is swept by whoever finds it.
func (s *survivors) end() {
	s.mu.Lock()
	s.sweep = true
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, t := range s.all() {
		wg.Go(func() { t.run.Tree().Sweep() })
	}
	wg.Wait()
	close(s.over)
}
