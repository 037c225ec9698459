package process

import (
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// members returns the processes of a subject but main.
func members(s *subject) []int {
	return slices.DeleteFunc(bearing(s.marker), func(pid int) bool { return pid == s.PID() })
}

// 8.7: a child that shows only after the n-th scan of the table, the last one
// before the proof included.
func TestProofLooksAtOurChildrenAfterTheScan(t *testing.T) {
	for n := int32(1); !t.Failed(); n++ {
		var hidden, scans atomic.Int32
		killed := make(chan Process, 10)
		o := startChangedOwner(t, Options{OnRogue: func(p Process) { killed <- p }}, func(k *kernel) {
			tagOf := k.tagOf
			k.tagOf = func(pid int) (uint64, error) {
				if int32(pid) == hidden.Load() {
					return 1 << 63, nil // as if it were not there: foreign
				}
				return tagOf(pid)
			}
			k.afterScan = func() {
				if hidden.Load() != 0 && scans.Add(1) == n {
					hidden.Store(0)
				}
			}
		})
		s := startShape(t, o, "sibling", 4) // its children are the owner's
		hidden.Store(int32(members(s)[0]))
		sweep := s.Sweep()
		if !sweep.Proven() {
			t.Errorf("%d: not contained: %+v", n, sweep)
		}
		if hidden.Load() == 0 {
			wantBearing(t, s.marker, 0)
			o.Close()
			continue
		}
		// It did not show before the proof. Now that it does, its tag is no tree's.
		if n < 3 {
			t.Errorf("the proof was given after %d scans", scans.Load())
		}
		hidden.Store(0)
		select {
		case <-killed:
		case <-time.After(10 * time.Second):
			t.Fatal("what showed after the proof lives on")
		}
		waitFor(t, "what showed after the proof to be killed", func() bool { return len(bearing(s.marker)) == 0 })
		return
	}
}

// unkillable makes signals to one process go nowhere.
type unkillable struct{ pid atomic.Int32 }

func (u *unkillable) change(k *kernel) {
	kill, send := k.kill, k.pidfdSend
	k.kill = func(pid int, sig syscall.Signal) error {
		if int32(pid) == u.pid.Load() {
			return unix.EPERM
		}
		return kill(pid, sig)
	}
	k.pidfdSend = func(pidfd int, sig syscall.Signal) error {
		if of := u.pid.Load(); of != 0 && pidOf(pidfd) == int(of) {
			return unix.EPERM
		}
		return send(pidfd, sig)
	}
}

// pidOf reads which process a pidfd stands for.
func pidOf(pidfd int) int {
	b, _ := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(pidfd))
	return fieldOf(string(b), "Pid:")
}

// 8.8.
func TestProofIsNotGivenWhileAProcessCannotBeKilled(t *testing.T) {
	for _, shape := range []string{"setsid", "double", "sibling"} {
		t.Run(shape, func(t *testing.T) {
			u := new(unkillable)
			o := startChangedOwner(t, Options{SweepDeadline: 300 * time.Millisecond}, u.change)
			s := startShape(t, o, shape, 2)
			pid := members(s)[0]
			u.pid.Store(int32(pid))
			sweep := s.Sweep()
			if sweep.Proven() || len(sweep.Left) != 1 || sweep.Left[0].PID != pid || sweep.Left[0].Name == "" {
				t.Errorf("got %+v, want process %d to be named", sweep, pid)
			}
			if sweep.Took > 800*time.Millisecond {
				t.Errorf("it took %v", sweep.Took)
			}
			select {
			case <-s.Gone():
				t.Error("and yet it is gone")
			default:
			}
			if c := o.Counts(); c.Uncontained != 1 {
				t.Errorf("counts are %+v", c)
			}
			u.pid.Store(0)
			select { // without another sweep
			case <-s.Gone():
			case <-time.After(5 * time.Second):
				t.Error("still not gone though it can be killed now")
			}
			if c := o.Counts(); c.Uncontained != 0 || c.Trees != 0 {
				t.Errorf("counts are %+v", c)
			}
		})
	}
}

// Main keeps its number, and its group's, while another child of ours bears the
// tag: only so can the group be killed.
func TestProofPinsMainToTheLast(t *testing.T) {
	u := new(unkillable)
	var scans atomic.Int32
	o := startChangedOwner(t, Options{SweepDeadline: 20 * time.Second}, func(k *kernel) {
		u.change(k)
		k.afterScan = func() { scans.Add(1) }
	})
	s := startShape(t, o, "setsid", 2)
	u.pid.Store(int32(members(s)[0]))
	swept := make(chan Sweep)
	go func() { swept <- s.Sweep() }()
	<-s.Done()
	after := scans.Load()
	waitFor(t, "three more scans", func() bool { return scans.Load() >= after+3 })
	if !alive(s.PID()) {
		t.Error("main has been reaped")
	}
	u.pid.Store(0)
	if sweep := <-swept; !sweep.Proven() {
		t.Errorf("got %+v", sweep)
	}
	if alive(s.PID()) {
		t.Error("main has not been reaped")
	}
}

// The table is scanned twice after the last reap.
func TestProofTakesTwoLooks(t *testing.T) {
	var main, scans atomic.Int32
	o := startChangedOwner(t, Options{}, func(k *kernel) {
		k.afterScan = func() {
			if of := main.Load(); of != 0 && !alive(int(of)) {
				scans.Add(1)
			}
		}
	})
	s := startShape(t, o, "one", 1)
	main.Store(int32(s.PID()))
	s.wantSwept()
	if got := scans.Load(); got < 2 {
		t.Errorf("it took %d", got)
	}
}

// A look during which somebody was reaped is not one of the two: the survivor
// ends between the scan and the pass after it.
func TestProofIsSpoiltByAReap(t *testing.T) {
	var survivor, scans atomic.Int32
	o := startChangedOwner(t, Options{}, func(k *kernel) {
		k.afterScan = func() {
			scans.Add(1)
			if pid := int(survivor.Swap(0)); pid != 0 {
				_ = unix.Kill(pid, unix.SIGKILL)
				waitFor(t, "the survivor's end", func() bool { return ended(pid) })
				scans.Store(0)
			}
		}
	})
	s := startShape(t, o, "survivor", 1)
	s.Release()
	<-s.Settled()
	survivor.Store(int32(s.Members()[0].PID))
	<-s.Gone()
	if got := scans.Load(); got < 2 {
		t.Errorf("the proof came %d scans after the reap", got)
	}
}

// 8.10: what has joined a sibling's PID namespace has the sibling's init as
// its parent, and dies with the tree whose tag it bears.
func TestTreeThatJoinedASiblingIsSwept(t *testing.T) {
	needPrivilege(t, "join")
	o := startOwner(t, nicely)
	sibling := startShape(t, o, "namespace", 3)
	init := members(sibling)[0]
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	marker := newMarker()
	s := start(t, o, marker, exe, "shape", "join", marker, strconv.Itoa(init))
	s.waitDots(3)
	waitFor(t, "the orphan to be the sibling's", func() bool {
		return slices.ContainsFunc(s.Members(), func(p Process) bool { return p.PPID == init })
	})
	sweep := s.wantSwept()
	t.Logf("%v, %d rounds", sweep.Took, sweep.Rounds)
	wantBearing(t, sibling.marker, 3)
	sibling.wantSwept()
}
