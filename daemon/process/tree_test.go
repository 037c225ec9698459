package process

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// nicely is what the daemon runs with: mains at nice 10.
var nicely = Options{Nice: 10}

// 8.1, 8.2, 8.3, 8.5.
func TestTreeSweepLeavesNothingAndSparesSibling(t *testing.T) {
	for _, row := range []struct {
		shape string
		dots  int // processes that say they are in their places
		least int // processes that must then be there
	}{
		{"one", 1, 1},
		{"setsid", 2, 2},
		{"double", 2, 2},
		{"cleared", 2, 2},
		{"deaf", 2, 2},
		{"sessions", 201, 201},
		{"chain", 2, 2},
		{"subreaper", 22, 22},
		{"sibling", 4, 4},
		{"silent", 7, 7},
		{"namespace", 3, 3},
		{"usernamespace", 3, 3},
		{"leaderless", 1, 0}, // its arguments cannot be read any more
		{"stopped", 4, 4},
		{"parricide", 1, 1},
		{"group", 7, 7},
		{"otheruser", 2, 2},
		{"endless", 9, 1}, // the chains move too fast to be counted
		{"endlessclear", 9, 1},
	} {
		t.Run(row.shape, func(t *testing.T) {
			needPrivilege(t, row.shape)
			o := startOwner(t, nicely)
			sibling := startShape(t, o, "double", 2)
			s := startShape(t, o, row.shape, row.dots)
			if n := len(bearing(s.marker)); n < row.least {
				t.Errorf("there are %d processes, want %d: the shape does not hold", n, row.least)
			}
			sweep := s.wantSwept()
			if sweep.Exit.Signal != unix.SIGKILL {
				t.Errorf("main ended with %+v", sweep.Exit)
			}
			if sweep.Took > 5*time.Second {
				t.Errorf("the sweep took %v", sweep.Took)
			}
			t.Logf("%v, %d rounds, %d reaped", sweep.Took, sweep.Rounds, sweep.Reaped)
			wantBearing(t, sibling.marker, 2)
			select {
			case <-sibling.Done():
				t.Error("the sibling's main has ended")
			default:
			}
		})
	}
}

// 8.4; the heartbeat is a ticker here.
func TestTreeBombIsGoneInTime(t *testing.T) {
	for _, shape := range []string{"bomb", "bombs", "bombclear"} {
		t.Run(shape, func(t *testing.T) {
			o := startOwner(t, nicely)
			sibling := startShape(t, o, "double", 2)
			s := startShape(t, o, shape, 1)
			late := startHeartbeat(t, 20*time.Millisecond)
			sweep := s.wantSwept()
			if sweep.Took > 5*time.Second {
				t.Errorf("the sweep took %v", sweep.Took)
			}
			t.Logf("%v, %d rounds, %d reaped; the heartbeat was late by %v at most", sweep.Took, sweep.Rounds, sweep.Reaped, late())
			wantBearing(t, sibling.marker, 2)
		})
	}
}

// startHeartbeat returns a function that ends it and says how late it was.
func startHeartbeat(t *testing.T, every time.Duration) func() time.Duration {
	stop, worst := make(chan struct{}), make(chan time.Duration)
	go func() {
		var late time.Duration
		for next := time.Now().Add(every); ; next = next.Add(every) {
			select {
			case <-stop:
				worst <- late
				return
			case <-time.After(time.Until(next)):
				late = max(late, time.Since(next))
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		late := <-worst
		if late > time.Second {
			t.Errorf("the heartbeat was late by %v", late)
		}
		return late
	}
}

// A second sweep and a sweep from many goroutines are the same sweep.
func TestTreeSweepIsJoined(t *testing.T) {
	o := startOwner(t, nicely)
	s := startShape(t, o, "sessions", 201)
	got := make(chan Sweep)
	for range 8 {
		go func() { got <- s.Sweep() }()
	}
	for range 8 {
		if sweep := <-got; !sweep.Proven() || sweep.Exit.Signal != unix.SIGKILL {
			t.Errorf("got %+v", sweep)
		}
	}
	if again := s.Sweep(); !again.Proven() || again.Rounds != 0 {
		t.Errorf("the sweep of a tree that is gone: %+v", again)
	}
}

// What was done decides: main had exited by itself before it was killed.
func TestTreeSweepTellsMainsOwnExit(t *testing.T) {
	o := startOwner(t, nicely)
	s := startShape(t, o, "exit", 0)
	<-s.Done()
	if sweep := s.wantSwept(); sweep.Exit.Code != 7 || sweep.Exit.Signal != 0 {
		t.Errorf("exit is %+v, want code 7", sweep.Exit)
	}
	if again := s.Release(); again.Code != 7 {
		t.Errorf("and then %+v", again)
	}
}

// Survivors live on after Release, are listed, and can be swept.
func TestTreeSurvivorIsKeptListedAndSwept(t *testing.T) {
	o := startOwner(t, nicely)
	s := startShape(t, o, "survivor", 1)
	if exit := s.Release(); exit.Code != 0 || exit.Signal != 0 {
		t.Errorf("exit is %+v", exit)
	}
	<-s.Settled()
	select {
	case <-s.Gone():
		t.Fatal("it is gone")
	default:
	}
	members := s.Members()
	if len(members) != 1 || members[0].PPID != unix.Getpid() || members[0].StartedAt.IsZero() ||
		!strings.HasPrefix(members[0].Name, "process") {
		t.Errorf("members are %+v", members)
	}
	if c := o.Counts(); c.Survivors != 1 {
		t.Errorf("counts are %+v", c)
	}
	s.wantSwept()
}

// A tree that ends by itself is proven gone without a sweep, and the owner does
// not keep its zombies.
func TestTreeGoneWithoutSweep(t *testing.T) {
	o := startOwner(t, nicely)
	s := startShape(t, o, "survivor", 1)
	s.Release()
	<-s.Settled()
	members := s.Members()
	if len(members) != 1 {
		t.Fatalf("members are %+v", members)
	}
	if err := unix.Kill(members[0].PID, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Gone():
	case <-time.After(5 * time.Second):
		t.Error("not gone")
	}
	if c := o.Counts(); c.Trees != 0 {
		t.Errorf("counts are %+v", c)
	}
}

// Done is prompt for whoever asks, DoneLate at most 10 ms and a look later, and
// Ended is true as soon as main has ended.
func TestTreeEndIsNoticed(t *testing.T) {
	o := startOwner(t, Options{})
	for name, notice := range map[string]func(*subject){
		"Done":     func(s *subject) { <-s.Done() },
		"DoneLate": func(s *subject) { <-s.DoneLate() },
		"Ended": func(s *subject) {
			if !s.Ended(10 * time.Second) {
				t.Error("Ended is false")
			}
		},
		"Release": func(s *subject) { s.Release() },
	} {
		for _, script := range []string{"exit 5", "read -t 0.05 <> <(:); exit 5"} {
			s := startBash(t, o, script)
			notice(s)
			if !s.Ended(0) {
				t.Errorf("%s: main has not ended", name)
			}
			if exit := s.Release(); exit.Code != 5 {
				t.Errorf("%s: exit is %+v", name, exit)
			}
		}
	}
}

// 8.23 in part: the keeper leaves an exited main to whoever awaits it.
func TestTreeStatusIsKeptForRelease(t *testing.T) {
	o := startOwner(t, Options{})
	waiting := startShape(t, o, "exit", 0)
	<-waiting.Done()
	orphans := startShape(t, o, "orphans", 0)
	if exit := orphans.Release(); exit.Code != 3 {
		t.Errorf("exit is %+v", exit)
	}
	waitFor(t, "20 orphans to be reaped", func() bool { return o.Counts().OrphansReaped >= 20 })
	select {
	case <-orphans.Gone():
	case <-time.After(5 * time.Second):
		t.Error("the tree of the orphans is not gone")
	}
	if c := o.Counts(); c.Zombies != 1 || c.Trees != 1 {
		t.Errorf("counts are %+v, want the one zombie that waits", c)
	}
	if exit := waiting.Release(); exit.Code != 7 {
		t.Errorf("exit is %+v, want code 7", exit)
	}
}
