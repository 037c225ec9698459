package process

import (
	"os"
	"testing"
	"time"
)

// looks makes the keeper look at our children so often.
func looks(o *Owner, times int) {
	for range times {
		o.mu.Lock()
		now := time.Now()
		o.plan.reap = now
		o.wakeKeeper()
		o.mu.Unlock()
		for done := false; !done; time.Sleep(time.Millisecond) {
			o.mu.Lock()
			done = o.plan.reap.After(now)
			o.mu.Unlock()
		}
	}
}

// A main that lowers its own limit before Spawn has entered it is no rogue, and
// its status is its own.
func TestMainThatLowersItsNumberAtOnceLives(t *testing.T) {
	for name, command := range map[string]string{"lives": "ulimit -x 1000000; read x; exit 7", "has ended": "ulimit -x 1000000; exit 7"} {
		t.Run(name, func(t *testing.T) {
			rogues := make(chan Process, 10)
			o := startOwner(t, Options{OnRogue: func(p Process) { rogues <- p }})
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			defer w.Close()
			spawned := make(chan *Tree)
			go func() {
				tree, err := o.Spawn(Command{Path: "/bin/bash", Args: []string{"bash", "-c", command}, Files: [3]int{int(r.Fd()), 1, 2}})
				if err != nil {
					t.Error(err)
				}
				spawned <- tree
			}()
			// Whoever has the gate keeps the spawn from being entered.
			for {
				o.gate.mu.Lock()
				if o.gate.flight != nil {
					break
				}
				o.gate.mu.Unlock()
			}
			waitFor(t, "the child to lower its number", func() bool {
				for _, pid := range o.childPIDs() {
					if tag, err := o.kernel.tagOf(pid); err == nil && tag == 1000000 {
						return true
					}
				}
				return false
			})
			looks(o, 3)
			o.gate.mu.Unlock()
			tree := <-spawned
			looks(o, 3)
			w.Close()
			if exit := tree.Release(); exit.Code != 7 || exit.Signal != 0 {
				t.Errorf("exit %+v", exit)
			}
			if len(rogues) > 0 {
				t.Errorf("rogue %+v", <-rogues)
			}
		})
	}
}

// childPIDs lists our children.
func (o *Owner) childPIDs() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	pids, _ := o.children.listLocked()
	return append([]int(nil), pids...)
}
