package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// The test binary runs itself as the child, "process.test shape NAME MARKER",
// for what bash cannot do; see shapes_test.go. It also runs itself as another
// user and as PID 1; see places_test.go.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "shape" {
		runShape(os.Args[2])
		panic("a shape does not return")
	}
	if os.Getenv(envMountProc) != "" {
		if err := mountProc(); err != nil {
			fmt.Fprintln(os.Stderr, "mount /proc:", err)
			os.Exit(1)
		}
	}
	code := m.Run()
	if left := bearing(markerPrefix()); len(left) > 0 {
		fmt.Fprintln(os.Stderr, "processes are left:", left)
		code = 1
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var markers atomic.Int64

func markerPrefix() string { return fmt.Sprintf("process-test-%d-", os.Getpid()) }

// newMarker is an argument that only the processes of one tree have.
func newMarker() string { return markerPrefix() + strconv.FormatInt(markers.Add(1), 10) + "-" }

// bearing returns the numbers of living processes that have an argument
// beginning with marker.
func bearing(marker string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		b, _ := os.ReadFile(f)
		if bytes.Contains(b, []byte("\x00"+marker)) {
			pids = append(pids, number([]byte(filepath.Base(filepath.Dir(f))+"\x00")))
		}
	}
	return pids
}

func wantBearing(t *testing.T, marker string, want int) {
	t.Helper()
	if got := bearing(marker); len(got) != want {
		t.Errorf("%d processes bear %s, want %d: %v", len(got), marker, want, got)
	}
}

// startOwner returns an owner that the test's end closes, when nothing may be
// left of any tree.
func startOwner(t *testing.T, options Options) *Owner {
	t.Helper()
	return startChangedOwner(t, options, func(*kernel) {})
}

func startChangedOwner(t *testing.T, options Options, change func(*kernel)) *Owner {
	t.Helper()
	o, err := newOwner(options, change)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		waitFor(t, "all trees to be gone", func() bool { return o.Counts().Trees == 0 })
		o.Close()
	})
	return o
}

// waitFor gives something that comes without a word 10 s to come.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for", what)
		}
	}
}

// subject is a tree under test, with the pipe that its processes speak on.
type subject struct {
	*Tree
	t      *testing.T
	marker string
	out    *os.File
}

// startShape spawns a shape and waits until count of its processes have come
// to their places, each of which says so with a dot.
func startShape(t *testing.T, o *Owner, shape string, count int) *subject {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	marker := newMarker()
	s := start(t, o, marker, exe, "shape", shape, marker)
	s.waitDots(count)
	return s
}

// startBash spawns bash with a script and the marker as $0.
func startBash(t *testing.T, o *Owner, script string) *subject {
	t.Helper()
	marker := newMarker()
	return start(t, o, marker, "/bin/bash", "-c", script, marker)
}

func start(t *testing.T, o *Owner, marker, path string, args ...string) *subject {
	t.Helper()
	s := &subject{t: t, marker: marker}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s.out = r
	t.Cleanup(func() { r.Close() })
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	s.Tree, err = o.Spawn(Command{
		Path:  path,
		Args:  append([]string{path}, args...),
		Env:   os.Environ(),
		Files: [3]int{int(null.Fd()), int(w.Fd()), int(w.Fd())},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if sweep := s.Sweep(); !sweep.Proven() {
			t.Errorf("%s: not contained: %+v", marker, sweep)
		}
	})
	return s
}

func (s *subject) waitDots(count int) {
	s.t.Helper()
	_ = s.out.SetReadDeadline(time.Now().Add(20 * time.Second))
	b := make([]byte, 256)
	for count > 0 {
		n, err := s.out.Read(b)
		if err != nil {
			s.t.Fatalf("%d dots are missing: %v", count, err)
		}
		if text := strings.Trim(string(b[:n]), "."); text != "" {
			s.t.Fatalf("the shape says %q", text)
		}
		count -= n
	}
}

// waitLine returns what the subject says until the end of a line.
func (s *subject) waitLine() string {
	s.t.Helper()
	_ = s.out.SetReadDeadline(time.Now().Add(20 * time.Second))
	var line []byte
	b := make([]byte, 1)
	for {
		if _, err := s.out.Read(b); err != nil {
			s.t.Fatalf("after %q: %v", line, err)
		}
		if b[0] == '\n' {
			return string(line)
		}
		line = append(line, b[0])
	}
}

// wantSwept sweeps the subject and wants nothing of it left.
func (s *subject) wantSwept() Sweep {
	s.t.Helper()
	sweep := s.Sweep()
	if !sweep.Proven() {
		s.t.Errorf("not contained: %+v", sweep)
	}
	select {
	case <-s.Gone():
	default:
		s.t.Error("the sweep says proven, Gone says not")
	}
	wantBearing(s.t, s.marker, 0)
	return sweep
}

func alive(pid int) bool { return unix.Kill(pid, 0) == nil }
