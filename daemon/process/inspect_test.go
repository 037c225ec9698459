package process

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pipes are the subject's, as the runner knows those of a command.
func (s *subject) pipes() [3]uint64 {
	s.t.Helper()
	info, err := s.out.Stat()
	if err != nil {
		s.t.Fatal(err)
	}
	inode := info.Sys().(*syscall.Stat_t).Ino
	return [3]uint64{0, inode, 0} // stderr is the same pipe
}

// inspect looks at one tree.
func (s *subject) inspect(o *Owner, files bool) Inspection {
	s.t.Helper()
	return o.Inspect(s.t.Context(), []Subject{{s.Tree, s.pipes()}}, files)[s.Tree]
}

// waitInspect looks until what is seen holds: a process says that it is about to
// sleep, never that it does.
func (s *subject) waitInspect(o *Owner, files bool, holds func(Inspection) bool) Inspection {
	s.t.Helper()
	var i Inspection
	for deadline := time.Now().Add(10 * time.Second); ; {
		if i = s.inspect(o, files); holds(i) {
			return i
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("never as wanted: %+v", i)
		}
	}
}

func find(i Inspection, ok func(Detail) bool) (d Detail, found bool) {
	for _, d := range i.Processes {
		if ok(d) {
			return d, true
		}
	}
	return Detail{}, false
}

// terminal opens a pseudo-terminal and gives the path of its far side.
func terminal(t *testing.T) string {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	return fmt.Sprintf("/dev/pts/%d", n)
}

// Each row is a real process that is stuck, and what is to be seen of it.
func TestInspectShowsWhatAProcessSleepsIn(t *testing.T) {
	dir := t.TempDir()
	fifo, lock := filepath.Join(dir, "fifo"), filepath.Join(dir, "lock")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	locked, err := os.Create(lock)
	if err != nil {
		t.Fatal(err)
	}
	defer locked.Close()
	if err := unix.Flock(int(locked.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())

	tests := []struct {
		name, script      string
		process           string // which one of the tree; its name
		state, call, file string // file begins so
		fd                int
	}{
		{"sleeps", "exec sleep 300", "sleep", "S", "clock_nanosleep", "", -1},
		{"stopped", "kill -STOP $$; :", "bash", "T", "kill", "", -1},
		{"waits for its child", "sleep 300; :", "bash", "S", "wait4", "", -1},
		{"reads a pipe", "sleep 300 | cat", "cat", "S", "read", "pipe:[", 0},
		{"writes to a full pipe", "yes | sleep 300", "yes", "S", "write", "pipe:[", 1},
		{"reads a terminal", "exec cat <TERMINAL", "cat", "S", "read", "/dev/pts/", 0},
		{"reads a socket", "exec cat <>/dev/tcp/127.0.0.1/" + port, "cat", "S", "read", "socket:[", 0},
		{"opens a FIFO", "exec cat " + fifo, "cat", "S", "openat", "", -1},
		{"waits for a lock", "exec 9<" + lock + "; exec flock 9", "flock", "S", "flock", lock, 9},
	}
	o := startOwner(t, nicely)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := exec.LookPath(test.process); err != nil {
				t.Skip(err)
			}
			if strings.Contains(test.script, "TERMINAL") {
				test.script = strings.ReplaceAll(test.script, "TERMINAL", terminal(t))
			}
			s := startBash(t, o, test.script)
			i := s.waitInspect(o, false, func(i Inspection) bool {
				d, ok := find(i, func(d Detail) bool { return d.Name == test.process && d.State == test.state })
				return ok && d.Call == test.call && d.FD == test.fd && strings.HasPrefix(d.File, test.file) && (test.file != "") == (d.File != "")
			})
			if d, _ := find(i, func(d Detail) bool { return d.Name == test.process }); d.WaitChannel == "" {
				t.Errorf("no wait channel: %+v", d)
			}
			if len(i.Unreadable) > 0 {
				t.Errorf("unreadable: %q", i.Unreadable)
			}
		})
	}
}

func TestInspectTellsBusyFromIdle(t *testing.T) {
	o := startOwner(t, nicely)
	s := startBash(t, o, "sleep 300 & sleep 300 & while :; do :; done & wait")
	i := s.waitInspect(o, false, func(i Inspection) bool {
		return len(i.Processes) == 4 && i.Processes[1].InWindow > 0 && i.Processes[2].InWindow == 0
	})
	main, busy := i.Processes[0], i.Processes[1]
	if !main.Main || main.PID != s.PID() || busy.Main || busy.Name != "bash" || busy.PPID != main.PID {
		t.Errorf("want main and then the busy one: %+v", i.Processes)
	}
	if i.Window < sampleLeast || i.Window > sampleMost || busy.CPU < busy.InWindow || busy.InWindow > 2*i.Window {
		t.Errorf("window %v: %+v", i.Window, busy)
	}
	if busy.Call != "" || busy.FD != -1 {
		t.Errorf("it is in no call: %+v", busy)
	}
}

// Who is busy now comes before who was.
func TestInspectListsTheBusiestFirst(t *testing.T) {
	o := startOwner(t, nicely)
	s := startBash(t, o, `coproc { for ((i = 0; i < 300000; i++)); do :; done; echo; exec sleep 300; }
		read -u ${COPROC[0]}; while :; do :; done & wait`)
	s.waitInspect(o, false, func(i Inspection) bool {
		if len(i.Processes) != 3 {
			return false
		}
		now, before := i.Processes[1], i.Processes[2]
		return now.Name == "bash" && now.InWindow > before.InWindow && before.Name == "sleep" && before.CPU > now.CPU
	})
}

func TestInspectShowsWhatElseThereIs(t *testing.T) {
	o := startOwner(t, nicely)
	s := startBash(t, o, "setsid sleep 301 & echo $!; wait")
	pid, _ := strconv.Atoi(s.waitLine())
	i := s.waitInspect(o, false, func(i Inspection) bool {
		_, ok := find(i, func(d Detail) bool { return d.Name == "sleep" && d.Session != s.PID() })
		return ok
	})
	d, _ := find(i, func(d Detail) bool { return d.Name == "sleep" })
	if d.PID != pid || d.Command != "sleep 301" || d.Session != pid || d.Group != pid || d.Threads != 1 || d.RSS < 4096 || d.StartedAt.IsZero() {
		t.Errorf("got %+v", d)
	}
	if time.Since(i.At) > time.Minute || i.Holders != nil || i.More != 0 {
		t.Errorf("got %+v", i)
	}
}

// A rogue hangs on a member and bears no tree's number.
func TestInspectListsARogue(t *testing.T) {
	o := startOwner(t, nicely)
	s := startBash(t, o, "(ulimit -x 1000000; echo; exec sleep 300) & wait")
	s.waitLine()
	i := s.inspect(o, false)
	if d, ok := find(i, func(d Detail) bool { return d.PPID == s.PID() }); !ok || d.Tag == s.tag {
		t.Errorf("got %+v", i)
	}
}

func TestInspectIsBounded(t *testing.T) {
	o := startOwner(t, nicely)
	s := startShape(t, o, "sessions", 201)
	i := s.inspect(o, true)
	if len(i.Processes) != listedMost || i.More != 201-listedMost || !i.Processes[0].Main {
		t.Errorf("%d processes and %d more", len(i.Processes), i.More)
	}
	if len(i.Holders) != listedMost || len(i.Unreadable) != 1 || !strings.HasPrefix(i.Unreadable[0], "137 more holders") {
		t.Errorf("%d holders, %q", len(i.Holders), i.Unreadable)
	}
}

// Who has no time for two looks gets one.
func TestInspectDoesNotWaitLongerThanItMay(t *testing.T) {
	o := startOwner(t, nicely)
	s := startBash(t, o, "echo; exec sleep 300")
	s.waitLine()
	ctx, cancel := context.WithTimeout(t.Context(), sampleLeast+inspectRest-10*time.Millisecond)
	defer cancel()
	i := o.Inspect(ctx, []Subject{{Tree: s.Tree}}, false)[s.Tree]
	if i.Window != 0 || len(i.Processes) != 1 {
		t.Errorf("got %+v", i)
	}
}

func TestInspectWithoutTimeSaysSo(t *testing.T) {
	o := startOwner(t, nicely)
	// The clock is looked at every 16 processes, and there may be fewer here.
	startBash(t, o, "for ((i = 0; i < 32; i++)); do sleep 300 & done; echo; wait").waitLine()
	s := startBash(t, o, "echo; exec sleep 300")
	s.waitLine()
	q := question{subjects: []Subject{{s.Tree, s.pipes()}}, files: true}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name  string
		ctx   context.Context
		until time.Time
		want  string
		found int
	}{
		{"for the table", t.Context(), time.Now().Add(-time.Second), "the process table: there was no time", -1},
		{"for the details", over, time.Now().Add(time.Minute), fmt.Sprintf("the details of pid %d: there was no time", s.PID()), 1},
		{"for the files", over, time.Now().Add(time.Minute), fmt.Sprintf("the open files of pid %d: there was no time", s.PID()), 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := o.examine(test.ctx, q, test.until)
			i := a.found[s.Tree]
			if !a.cut || test.found >= 0 && len(i.Processes) != test.found || !slices.Contains(i.Unreadable, test.want) {
				t.Errorf("want %q: %+v", test.want, i)
			}
		})
	}
}

// Sixteen callers with one question cost about as much as one.
func TestInspectSharesItsAnswer(t *testing.T) {
	var looks atomic.Int32
	var main atomic.Int64
	o := startChangedOwner(t, nicely, func(k *kernel) {
		statOf := k.statOf
		k.statOf = func(pid int) (stat, error) {
			if int64(pid) == main.Load() {
				looks.Add(1)
			}
			return statOf(pid)
		}
	})
	s := startBash(t, o, "echo; exec sleep 300")
	s.waitLine()
	main.Store(int64(s.PID()))
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if i := s.inspect(o, false); len(i.Processes) != 1 || i.Window == 0 {
				t.Errorf("got %+v", i)
			}
		})
	}
	wg.Wait()
	if n := looks.Load(); n > 8 {
		t.Errorf("looked %d times at one process", n)
	}
}
