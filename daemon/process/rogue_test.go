package process

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// 8.11: a descendant that lowered its own number is a member while its parent
// lives, and dies with its tree.
func TestRogueBelongsToItsParentsTree(t *testing.T) {
	o := startOwner(t, nicely)
	sibling := startShape(t, o, "double", 2)
	s := startShape(t, o, "rogue", 2)
	rogue := members(s)[0]
	if !slices.ContainsFunc(s.Members(), func(p Process) bool { return p.PID == rogue && p.Tag != s.tag }) {
		t.Errorf("members are %+v, want %d among them", s.Members(), rogue)
	}
	s.wantSwept()
	wantBearing(t, sibling.marker, 2)
}

// 8.11: and on sight once it is adopted.
func TestRogueIsKilledOnSightOnceAdopted(t *testing.T) {
	killed := make(chan Process, 10)
	o := startOwner(t, Options{OnRogue: func(p Process) { killed <- p }})
	s := startShape(t, o, "rogueorphan", 2)
	select {
	case p := <-killed:
		if p.PPID != os.Getpid() || p.Tag == s.tag || !strings.HasPrefix(p.Name, "process") {
			t.Errorf("told of %+v", p)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("not told of the rogue")
	}
	waitFor(t, "the rogue to be gone", func() bool { return len(bearing(s.marker)) == 1 })
	if s.Ended(0) {
		t.Error("main has been killed as well")
	}
	if c := o.Counts(); c.Rogues != 1 {
		t.Errorf("counts are %+v", c)
	}
	s.wantSwept()
}

// recorder keeps the signals that were sent.
type recorder struct {
	mu   sync.Mutex
	sent []int // numbers, as kill(2) takes them
}

func (r *recorder) change(k *kernel) {
	kill, send := k.kill, k.pidfdSend
	k.kill = func(pid int, sig syscall.Signal) error {
		r.add(pid)
		return kill(pid, sig)
	}
	k.pidfdSend = func(pidfd int, sig syscall.Signal) error {
		r.add(pidOf(pidfd))
		return send(pidfd, sig)
	}
}

func (r *recorder) add(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, pid)
}

func (r *recorder) wantNever(t *testing.T, pid int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.sent, pid) || slices.Contains(r.sent, -pid) {
		t.Errorf("%d was signalled: %v", pid, r.sent)
	}
}

// 8.26.
func TestForeignOrphanIsReapedAndNeverSignalled(t *testing.T) {
	if err := checkKernel(); err != nil { // makes us a subreaper
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Started before there is an owner, so its number is our original one.
	marker := newMarker()
	if err := exec.Command(exe, "shape", "foreign", marker).Run(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the foreign process", func() bool { return len(bearing(marker)) == 1 })
	foreign := bearing(marker)[0]

	r := new(recorder)
	o := startChangedOwner(t, nicely, r.change)
	s := startShape(t, o, "double", 2)
	s.wantSwept()
	waitFor(t, "the foreign orphan to be counted", func() bool { return o.Counts().ForeignOrphans == 1 })
	wantBearing(t, marker, 1)
	r.wantNever(t, foreign)
	if err := unix.Kill(foreign, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "it to be reaped", func() bool { return !alive(foreign) })
	r.wantNever(t, foreign)
	waitFor(t, "the count to say so", func() bool { return o.Counts().ForeignOrphans == 0 })
}

func withTagLimits(t *testing.T, limits []int) {
	before := tagLimits
	tagLimits = limits
	t.Cleanup(func() { tagLimits = before })
}

// Where RLIMIT_LOCKS cannot be used, RLIMIT_RTTIME does the same.
func TestTreeIsContainedByTheOtherLimit(t *testing.T) {
	withTagLimits(t, []int{99, unix.RLIMIT_RTTIME})
	o := startOwner(t, nicely)
	if o.Level() != LevelBase {
		t.Errorf("the level is %s", o.Level())
	}
	sibling := startShape(t, o, "double", 2)
	startShape(t, o, "cleared", 2).wantSwept()
	wantBearing(t, sibling.marker, 2)
}

// Without either the level is reduced: the environment tells trees apart.
func TestTreeIsKnownByEnvironmentAtTheReducedLevel(t *testing.T) {
	withTagLimits(t, nil)
	o := startOwner(t, nicely)
	if o.Level() != LevelReduced {
		t.Errorf("the level is %s", o.Level())
	}
	sibling := startShape(t, o, "double", 2)
	for _, shape := range []string{"setsid", "double", "sibling", "chain"} {
		startShape(t, o, shape, 2).wantSwept()
	}
	for range 50 {
		s := startBash(t, o, "exit 9")
		if exit := s.Release(); exit.Code != 9 {
			t.Errorf("exit is %+v", exit)
		}
	}
	wantBearing(t, sibling.marker, 2)
}

// A worker inside another worker's exec has a limit that is finite already.
func TestTreeOfANestedOwnerIsContained(t *testing.T) {
	o := startOwner(t, nicely)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	marker := newMarker()
	s := start(t, o, marker, exe, "shape", "nested", marker)
	for _, want := range []string{"base true", "ready"} {
		if got := s.waitLine(); got != want {
			t.Fatalf("the inner worker says %q, want %q", got, want)
		}
	}
	if n := len(s.Members()); n < 3 {
		t.Errorf("there are %d members, want the inner tree among them", n)
	}
	s.wantSwept()
}

func fieldOf(text, name string) int {
	_, rest, _ := strings.Cut(text, name)
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.Atoi(strings.TrimSpace(line))
	return n
}
