package process

import (
	"math"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// looks makes the keeper look at our children so often.
func looks(t *testing.T, o *Owner, times int) {
	t.Helper()
	for range times {
		o.mu.Lock()
		asked := time.Now()
		o.plan.reap = asked
		o.wakeKeeper()
		o.mu.Unlock()
		waitFor(t, "a look", func() bool {
			o.mu.Lock()
			defer o.mu.Unlock()
			return o.plan.reap.After(asked)
		})
	}
}

// child finds a child of ours, by its number as the kernel has it; 0 is none.
func (o *Owner) child(wanted func(pid int, tag uint64) bool) (found int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	pids, _ := o.children.listLocked()
	for _, pid := range pids {
		if tag, err := o.tags.of(pid); err == nil && wanted(pid, tag) {
			found = pid
		}
	}
	return found
}

const lowered = 1000000 // the number that a command gives itself

// Whatever number a main has given itself before Spawn has entered it: it
// lives, and its status is its own. To raise one wants CAP_SYS_RESOURCE, so each
// lowers it, and the owner is shown the other kinds.
func TestSpawnKeepsAMainThatHasChangedItsNumberAtOnce(t *testing.T) {
	var sibling atomic.Uint64 // its number
	for name, shown := range map[string]func() (uint64, error){
		"its own":           func() (uint64, error) { return lowered, nil },
		"a sibling's":       func() (uint64, error) { return sibling.Load(), nil },
		"that of outsiders": func() (uint64, error) { return math.MaxUint64, nil },
		"not to be read":    func() (uint64, error) { return 0, unix.EMFILE },
	} {
		keep := func(t *testing.T, script string, changed func(pid int) bool) {
			rogues := make(chan Process, 10)
			o := startChangedOwner(t, Options{OnRogue: func(p Process) { rogues <- p }}, func(k *kernel) {
				tagOf := k.tagOf
				k.tagOf = func(pid int) (uint64, error) {
					tag, err := tagOf(pid)
					if err == nil && tag == lowered {
						return shown()
					}
					return tag, err
				}
			})
			sibling.Store(startShape(t, o, "one", 1).tag)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			defer w.Close()
			enter, spawned := holdSpawn(t, o, Command{
				Path:  "/bin/bash",
				Args:  []string{"bash", "-c", script, newMarker()},
				Files: [3]int{int(r.Fd()), 1, 2},
			})
			waitFor(t, "main to change its number", func() bool {
				return o.child(func(pid int, tag uint64) bool { return tag == lowered && changed(pid) }) != 0
			})
			looks(t, o, 3)
			if c := o.Counts(); c.ForeignOrphans != 0 {
				t.Errorf("main is counted as a foreign orphan: %+v", c)
			}
			enter()
			tree := <-spawned
			if tree == nil {
				return
			}
			looks(t, o, 3)
			w.Close()
			if exit := tree.Release(); exit.Code != 7 || exit.Signal != 0 {
				t.Errorf("exit is %+v, want code 7", exit)
			}
			if len(rogues) > 0 {
				t.Errorf("told of a rogue: %+v", <-rogues)
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			if len(o.flights) > 0 || len(o.unsure) > 0 {
				t.Errorf("%d spawns are still under way, and %d children unsure", len(o.flights), len(o.unsure))
			}
		}
		t.Run(name+", lives", func(t *testing.T) {
			keep(t, "ulimit -x 1000000; read x; exit 7", func(int) bool { return true })
		})
		t.Run(name+", has ended", func(t *testing.T) {
			keep(t, "ulimit -x 1000000; exit 7", ended)
		})
	}
}

// holdSpawn starts a spawn that comes to the end of its fork and does not enter
// its main before enter.
func holdSpawn(t *testing.T, o *Owner, c Command) (enter func(), spawned <-chan *Tree) {
	t.Helper()
	trees := make(chan *Tree, 1)
	syscall.ForkLock.RLock() // which the fork waits for
	go func() {
		defer close(trees)
		tree, err := o.Spawn(c)
		if err != nil {
			t.Error(err)
			return
		}
		trees <- tree
	}()
	held := func() bool {
		o.gate.mu.Lock() // which Spawn needs again before it enters main
		if o.gate.flight != nil {
			return true
		}
		o.gate.mu.Unlock()
		return false
	}
	for !held() {
		pause(clonePause)
	}
	enter = sync.OnceFunc(o.gate.mu.Unlock)
	t.Cleanup(func() {
		enter()
		if tree := <-trees; tree != nil {
			tree.Sweep()
		}
	})
	syscall.ForkLock.RUnlock()
	return enter, trees
}

// beginFlight is a spawn whose main runs and is not entered.
func beginFlight(o *Owner) (land func()) {
	f := new(flight)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flights = append(o.flights, f)
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.landedLocked(f)
	}
}

// What leads no session is no main, and waits for no spawn.
func TestRogueThatLeadsNoSessionIsKilledAtOnce(t *testing.T) {
	killed := make(chan Process, 10)
	o := startOwner(t, Options{OnRogue: func(p Process) { killed <- p }})
	defer beginFlight(o)()
	startBash(t, o, "( (ulimit -x 1000000; exec sleep 100) & ); sleep 100; true")
	select {
	case <-killed:
	case <-time.After(10 * time.Second):
		t.Error("it lives on")
	}
}

// A spawn that begins when a child has been seen already does not save it: else
// a rogue could live for as long as there are spawns.
func TestRogueIsKilledWhateverIsSpawnedLater(t *testing.T) {
	killed := make(chan Process, 10)
	o := startOwner(t, Options{OnRogue: func(p Process) { killed <- p }})
	s := startBash(t, o, `setsid bash -c 'ulimit -x 1000000; echo up; sleep 100; true' "$0" & sleep 100; true`)
	if got := s.waitLine(); got != "up" {
		t.Fatalf("it says %q", got)
	}
	rogue := members(s)[0]
	land := beginFlight(o)
	if err := unix.Kill(s.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the rogue to be adopted", func() bool {
		st, err := readStat(rogue)
		return err == nil && st.ppid == os.Getpid()
	})
	looks(t, o, 3)
	if len(killed) > 0 {
		t.Fatal("it may be a main, and is killed")
	}
	defer beginFlight(o)()
	land()
	looks(t, o, 1)
	select {
	case <-killed:
	case <-time.After(10 * time.Second):
		t.Error("it lives on")
	}
}

// What is remembered of a child goes with it: its number may be a main's next.
func TestSpawnRemembersNoChildThatIsReaped(t *testing.T) {
	o := startOwner(t, nicely)
	s := startShape(t, o, "orphansessions", 200)
	<-s.Done()
	remembered := func() int {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.unsure)
	}
	waitFor(t, "the children to be seen", func() bool { return remembered() == 200 })
	s.wantSwept()
	if n := remembered(); n > 0 {
		t.Errorf("%d are remembered", n)
	}
}
