package process

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// startForeign starts a process that is not below us, before there is an owner.
func startForeign(t *testing.T) (pid int) {
	t.Helper()
	if os.Getpid() == 1 {
		t.Skip("whatever is orphaned comes to us")
	}
	if inUse.Load() {
		t.Fatal("there is an owner already")
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("/bin/bash", "-c", "setsid sleep 120 >/dev/null 2>&1 & echo $!").Output()
	if err != nil {
		t.Fatal(err)
	}
	pid, err = strconv.Atoi(string(bytes.TrimSpace(out)))
	if err != nil {
		t.Fatal(err)
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
		if !readable(pidfd, 10*time.Second) {
			t.Error("it does not die")
		}
		unix.Close(pidfd)
	})
	waitFor(t, "the process to be somebody else's", func() bool {
		s, err := readStat(pid)
		return err == nil && s.ppid != os.Getpid() && s.name == "sleep"
	})
	return pid
}

func wantOutside(t *testing.T, o *Owner, pid int) {
	t.Helper()
	if got := o.Origin(pid); !got.Found || got.Descendant || got.Tree != nil || got.Process.PID != pid || got.UID != os.Geteuid() {
		t.Errorf("want one from outside: %+v", got)
	}
}

func wantDescendant(t *testing.T, o *Owner, pid int, tree *Tree) {
	t.Helper()
	if got := o.Origin(pid); !got.Found || !got.Descendant || got.Tree != tree || got.Process.PID != pid {
		t.Errorf("want a descendant of %p: %+v", tree, got)
	}
}

func TestOriginOfWhatIsNotOurs(t *testing.T) {
	foreign := startForeign(t)
	for _, level := range []struct {
		name   string
		limits []int
	}{{LevelBase, tagLimits}, {LevelReduced, nil}} {
		t.Run(level.name, func(t *testing.T) {
			withTagLimits(t, level.limits)
			o := startOwner(t, nicely)
			wantOutside(t, o, foreign)
			wantOutside(t, o, os.Getpid())
			if got := o.Origin(os.Getppid()); !got.Found || got.Descendant {
				t.Errorf("our parent: %+v", got)
			}
			for _, pid := range []int{0, -1, 1 << 30} {
				if got := o.Origin(pid); got != (Origin{}) {
					t.Errorf("there is no %d: %+v", pid, got)
				}
			}
		})
	}
}

func TestOriginOfDescendants(t *testing.T) {
	tests := []struct {
		shape   string
		count   int
		reduced bool // works at that level too
	}{
		{"one", 1, true}, {"setsid", 2, true}, {"double", 2, true}, {"sibling", 4, true},
		{"subreaper", 22, true}, {"chain", 2, true}, {"cleared", 2, false}, {"rogue", 2, true},
	}
	for _, limits := range [][]int{tagLimits, nil} {
		for _, test := range tests {
			t.Run(fmt.Sprintf("%s with %v", test.shape, limits), func(t *testing.T) {
				withTagLimits(t, limits)
				o := startOwner(t, nicely)
				s := startShape(t, o, test.shape, test.count)
				pids := bearing(s.marker)
				if len(pids) < test.count {
					t.Errorf("%d of %d are there", len(pids), test.count)
				}
				for _, pid := range pids {
					tree := s.Tree
					if limits == nil && !test.reduced && pid != s.PID() {
						tree = nil // nobody knows any more, but that it is ours
					}
					wantDescendant(t, o, pid, tree)
					if tree == nil { // nor will a sweep find it
						_ = unix.Kill(pid, unix.SIGKILL)
						waitFor(t, "it to be reaped", func() bool { return !alive(pid) })
					}
				}
			})
		}
	}
}

// A command that lowers its own number and that of its child.
func TestOriginOfARogue(t *testing.T) {
	o := startOwner(t, nicely)
	fifo := filepath.Join(t.TempDir(), "fifo") // until then main is on its way into the books
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	s := startBash(t, o, "read <"+fifo+"; ulimit -x 1000000; (ulimit -x 999999; echo $BASHPID; exec sleep 300) & wait")
	if err := os.WriteFile(fifo, []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(s.waitLine())
	wantDescendant(t, o, pid, s.Tree)
	wantDescendant(t, o, s.PID(), s.Tree)
}

// Adopted from outside or from a tree by one who has raised his number: that
// cannot be told apart.
func TestOriginOfAForeignProcessBelowUs(t *testing.T) {
	if err := checkKernel(); err != nil { // makes us a subreaper
		t.Fatal(err)
	}
	marker := newMarker()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command(exe, "shape", "foreign", marker).Run(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the foreign process", func() bool { return len(bearing(marker)) == 1 })
	pid := bearing(marker)[0]
	o := startOwner(t, nicely)
	wantDescendant(t, o, pid, nil)
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "it to be reaped", func() bool { return !alive(pid) })
}

// changed is what a process's number is said to be.
type changed struct {
	pid atomic.Int64
	tag atomic.Uint64
}

func (c *changed) change(k *kernel) {
	tagOf := k.tagOf
	k.tagOf = func(pid int) (uint64, error) {
		if int64(pid) == c.pid.Load() {
			return c.tag.Load(), nil
		}
		return tagOf(pid)
	}
}

// Root can raise its number. It still has its parents.
func TestOriginOfWhoHasRaisedItsNumber(t *testing.T) {
	c := new(changed)
	o := startChangedOwner(t, nicely, c.change)
	s := startShape(t, o, "setsid", 2)
	child := members(s)[0]
	c.tag.Store(math.MaxUint64)
	c.pid.Store(int64(child))
	wantDescendant(t, o, child, s.Tree)
	c.pid.Store(0) // or it would hide from the sweep
}

// A number below our first one is from us, whatever has become of its tree.
func TestOriginOfANumberOfNoKnownTree(t *testing.T) {
	foreign := startForeign(t)
	c := new(changed)
	o := startChangedOwner(t, nicely, c.change)
	c.tag.Store(o.tags.original - 1)
	c.pid.Store(int64(foreign))
	wantDescendant(t, o, foreign, nil)
	c.tag.Store(o.tags.original)
	wantOutside(t, o, foreign)
}

// What goes while it is looked at was perhaps a descendant.
func TestOriginOfWhatVanishesMidway(t *testing.T) {
	for _, at := range []string{"tag", "stat"} {
		t.Run(at, func(t *testing.T) {
			foreign := startForeign(t)
			victim := new(atomic.Int64)
			end := func(pid int) {
				if int64(pid) != victim.Load() {
					return
				}
				pidfd, err := unix.PidfdOpen(pid, 0)
				if err != nil {
					return
				}
				defer unix.Close(pidfd)
				_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
				readable(pidfd, 10*time.Second)
			}
			o := startChangedOwner(t, nicely, func(k *kernel) {
				tagOf, statOf := k.tagOf, k.statOf
				k.tagOf = func(pid int) (uint64, error) {
					if at == "tag" {
						end(pid)
					}
					return tagOf(pid)
				}
				k.statOf = func(pid int) (stat, error) {
					s, err := statOf(pid)
					if at == "stat" {
						end(pid)
					}
					return s, err
				}
			})
			victim.Store(int64(foreign))
			wantDescendant(t, o, foreign, nil)
		})
	}
}

// What cannot be read was perhaps a descendant.
func TestOriginOfWhatCannotBeRead(t *testing.T) {
	foreign := startForeign(t)
	hidden := map[string]*atomic.Bool{"pidfd": {}, "tag": {}, "stat": {}}
	o := startChangedOwner(t, nicely, func(k *kernel) {
		pidfdOpen, tagOf, statOf := k.pidfdOpen, k.tagOf, k.statOf
		k.pidfdOpen = func(pid int) (int, error) {
			if pid == foreign && hidden["pidfd"].Load() {
				return -1, unix.EMFILE
			}
			return pidfdOpen(pid)
		}
		k.tagOf = func(pid int) (uint64, error) {
			if pid == foreign && hidden["tag"].Load() {
				return 0, unix.EPERM
			}
			return tagOf(pid)
		}
		k.statOf = func(pid int) (stat, error) {
			if pid == foreign && hidden["stat"].Load() {
				return stat{}, unix.ESRCH
			}
			return statOf(pid)
		}
	})
	for what, is := range hidden {
		t.Run(what, func(t *testing.T) {
			wantOutside(t, o, foreign)
			is.Store(true)
			defer is.Store(false)
			wantDescendant(t, o, foreign, nil)
		})
	}
}

// Unprivileged, its number is read from a file that everybody may read.
func TestOriginOfAnUndumpableProcess(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read it; the tests run as another user too")
	}
	o := startOwner(t, nicely)
	s := startShape(t, o, "undumpable", 1)
	wantDescendant(t, o, s.PID(), s.Tree)
	if got := o.Origin(s.PID()); got.UID != os.Geteuid() {
		t.Errorf("the user is %d", got.UID)
	}
	if _, hidden := o.Holders(1); !hidden {
		t.Error("its descriptors are not hidden")
	}
}
