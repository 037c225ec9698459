package process

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Main has ended, and a session of its own goes on with the output open.
func TestInspectFindsWhoHoldsTheOutput(t *testing.T) {
	o := startOwner(t, nicely)
	s := startBash(t, o, "setsid sleep 302 & exit 0")
	s.Release()
	i := s.waitInspect(o, true, func(i Inspection) bool {
		return len(i.Holders) == 1 && i.Holders[0].Command == "sleep 302"
	})
	h := i.Holders[0]
	if h.Stream != 1 || h.FD != 1 || !h.Writes || !h.Member || h.Session != h.PID || h.PID != i.Processes[0].PID || h.StartedAt.IsZero() {
		t.Errorf("got %+v", h)
	}
}

// The only holder has got the pipe from another tree, and the tree whose pipe it
// is has no process left. We have the other end, and are no holder.
func TestInspectFindsAHolderOfAnotherTree(t *testing.T) {
	o := startOwner(t, nicely)
	s := startBash(t, o, "echo; exec sleep 300")
	s.waitLine()
	other := startBash(t, o, fmt.Sprintf("exec 9>/proc/%d/fd/1; echo; exec sleep 303", s.PID()))
	other.waitLine()
	if err := unix.Kill(s.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.Release()
	i := s.waitInspect(o, true, func(i Inspection) bool { return len(i.Holders) == 1 && i.Holders[0].Name == "sleep" })
	if h := i.Holders[0]; h.PID != other.PID() || h.Member || h.FD != 9 || !h.Writes || h.Stream != 1 {
		t.Errorf("got %+v", h)
	}
	if len(i.Processes) != 0 {
		t.Errorf("it has no process: %+v", i.Processes)
	}
}

func TestInspectTellsReadersFromWriters(t *testing.T) {
	o := startOwner(t, nicely)
	s := startBash(t, o, "exec 0</proc/self/fd/1 8<&0; (exec 0</dev/null >/dev/null 2>&1; exec sleep 300) & echo; wait")
	s.waitLine()
	i := s.waitInspect(o, true, func(i Inspection) bool { return len(i.Holders) == 2 })
	main, reader := i.Holders[0], i.Holders[1]
	if main.PID != s.PID() || !main.Writes || main.FD != 1 {
		t.Errorf("main has both ends, and the one it writes to counts: %+v", main)
	}
	if reader.Writes || reader.FD != 8 {
		t.Errorf("got %+v", reader)
	}
}

// A descriptor that goes between the list and the look at it is no reason to stop.
func TestInspectGoesOnWhenADescriptorIsClosed(t *testing.T) {
	files := newDescriptors()
	var pair [2]*os.File // the second comes after the first
	for i := range pair {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		pair[i] = f
	}
	first, second := int(pair[0].Fd()), int(pair[1].Fd())
	seen := map[int]string{}
	err := files.each(os.Getpid(), func(fd int, target []byte) bool {
		seen[fd] = string(target)
		if fd == first {
			pair[1].Close()
		}
		return true
	})
	if err != nil || seen[first] != os.DevNull || seen[second] != "" || first > second {
		t.Errorf("%v, saw %v of %d and %d", err, seen, first, second)
	}
}

// What nobody holds, and no process is of, is not there.
func TestInspectKnowsNothingOfWhatIsGone(t *testing.T) {
	o := startOwner(t, nicely)
	s := startBash(t, o, "exit 0")
	s.wantSwept()
	if found := o.Inspect(t.Context(), []Subject{{s.Tree, s.pipes()}}, true); len(found) != 0 {
		t.Errorf("got %+v", found)
	}
}

// shapeVfork sleeps in state D until its child ends.
//
//go:norace
func shapeVfork() {
	if fork(unix.CLONE_VFORK|plain) == 0 {
		dot()
		rest()
	}
	exit()
}

func TestInspectDoesNotAskWhatCouldHang(t *testing.T) {
	o := startOwner(t, nicely)
	s := startShape(t, o, "vfork", 1)
	i := s.waitInspect(o, true, func(i Inspection) bool { return len(i.Processes) == 2 && i.Processes[0].State == "D" })
	if d := i.Processes[0]; !d.Main || d.Command != "" || d.Call != "clone" {
		t.Errorf("got %+v", d)
	}
	if len(i.Unreadable) != 1 || !strings.Contains(i.Unreadable[0], "could hang") {
		t.Errorf("unreadable: %q", i.Unreadable)
	}
}

//go:norace
func shapeUndumpable() {
	syscall.RawSyscall6(syscall.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0, 0)
	dot()
	rest()
}

// Unprivileged, nothing is to be seen of a process that has made itself
// undumpable, not even by its parent, and that is said.
func TestInspectSaysWhatItMayNotRead(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read it; the tests run as another user too")
	}
	o := startOwner(t, nicely)
	s := startShape(t, o, "undumpable", 1)
	i := s.waitInspect(o, true, func(i Inspection) bool {
		return len(i.Processes) == 1 && i.Processes[0].State == "S"
	})
	text := strings.Join(i.Unreadable, "\n")
	for _, want := range []string{"the wait channel", "the system call", "the open files"} {
		if strings.Count(text, want+fmt.Sprintf(" of pid %d: ", s.PID())) != 1 {
			t.Errorf("want %q of %d in %q", want, s.PID(), i.Unreadable)
		}
	}
	if d := i.Processes[0]; d.Call != "" || d.WaitChannel != "" || d.Command == "" || d.CPU == 0 {
		t.Errorf("got %+v", d)
	}
	if len(i.Holders) != 0 {
		t.Errorf("guessed %+v", i.Holders)
	}
}
