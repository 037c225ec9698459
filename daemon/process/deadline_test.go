package process

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// 8.9: each look at a process takes 5 ms, and there are 200 of them, main's
// children or ours. The keeper may be at something else when the sweep begins.
func TestProofDeadlineEndsARound(t *testing.T) {
	for _, row := range []struct{ name, shape, busy string }{
		{"sessions", "sessions", ""},
		{"orphansessions", "orphansessions", ""},
		{"sessions, while oom scores are raised", "sessions", "expose"},
		{"sessions, while survivors are looked for", "sessions", "census"},
	} {
		t.Run(row.name, func(t *testing.T) { deadlineEndsARound(t, row.shape, row.busy) })
	}
}

func deadlineEndsARound(t *testing.T, shape, busy string) {
	var slow atomic.Bool
	var sessions atomic.Value // set of the 200
	looked := make(chan struct{}, 1)
	o := startChangedOwner(t, Options{SweepDeadline: 300 * time.Millisecond}, func(k *kernel) {
		tagOf, kill, send := k.tagOf, k.kill, k.pidfdSend
		k.tagOf = func(pid int) (uint64, error) {
			if slow.Load() {
				if set, _ := sessions.Load().(map[int]bool); set[pid] {
					select {
					case looked <- struct{}{}:
					default:
					}
				}
				time.Sleep(5 * time.Millisecond)
			}
			return tagOf(pid)
		}
		k.kill = func(pid int, sig syscall.Signal) error {
			if slow.Load() {
				return unix.EPERM
			}
			return kill(pid, sig)
		}
		k.pidfdSend = func(pidfd int, sig syscall.Signal) error {
			if slow.Load() {
				return unix.EPERM
			}
			return send(pidfd, sig)
		}
	})
	survivor := startShape(t, o, "survivor", 1)
	survivor.Release()
	<-survivor.Settled()
	s := startShape(t, o, shape, 200)
	set := make(map[int]bool)
	for _, pid := range members(s) {
		set[pid] = true
	}
	sessions.Store(set)
	if shape == "orphansessions" {
		<-s.Done()
	}
	if busy != "" {
		o.mu.Lock()
		slow.Store(true)
		if busy == "census" {
			o.plan.census = time.Now()
		} else {
			s.exposed = 0
			o.plan.reap = time.Now()
		}
		o.wakeKeeper()
		o.mu.Unlock()
		<-looked
	}
	slow.Store(true)
	sweep := s.Sweep()
	slow.Store(false)
	o.mu.Lock()
	o.options.SweepDeadline = 20 * time.Second // for the clean-up: 200 processes take a while to die
	o.mu.Unlock()
	if sweep.Proven() {
		t.Errorf("got %+v", sweep)
	}
	if sweep.Took > 700*time.Millisecond {
		t.Errorf("it took %v in %d rounds", sweep.Took, sweep.Rounds)
	}
}

// A sweep ends the raising of oom scores, which comes again: as often as it is
// ended.
func TestSpawnTreeIsFirstToGoThoughSweepsComeBetween(t *testing.T) {
	var watched, cuts atomic.Int32
	var o *Owner
	cut := make(chan struct{})
	o = startChangedOwner(t, Options{}, func(k *kernel) {
		tagOf := k.tagOf
		k.tagOf = func(pid int) (uint64, error) {
			// Of a main, nobody else asks.
			if pid == int(watched.Load()) && cuts.Add(1) <= 2 {
				cut <- struct{}{}
				for !o.sweepWaits() {
					pause(clonePause)
				}
				return 0, unix.ESRCH
			}
			return tagOf(pid)
		}
	})
	var s *subject
	for watched.Load() == 0 {
		s = startShape(t, o, "one", 1)
		o.mu.Lock()
		if s.exposed == 0 { // it has not been its turn already
			watched.Store(int32(s.PID()))
		}
		o.mu.Unlock()
	}
	startShape(t, o, "one", 1) // which the look comes to after it
	lookAgain := func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.plan.reap = time.Now()
		o.wakeKeeper()
	}
	for range 2 {
		swept := startShape(t, o, "one", 1)
		lookAgain()
		<-cut
		swept.wantSwept()
	}
	waitFor(t, "its oom_score_adj", func() bool {
		lookAgain()
		b, err := os.ReadFile("/proc/" + strconv.Itoa(s.PID()) + "/oom_score_adj")
		return err == nil && strings.TrimSpace(string(b)) == string(o.oomScore)
	})
}
