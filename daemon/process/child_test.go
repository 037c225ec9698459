package process

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// 8.16 in part: what this program opens is close-on-exec.
func TestSpawnMainSeesThreeDescriptors(t *testing.T) {
	// What the test was started with is not what it opened.
	if err := unix.CloseRange(3, 1<<20, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		t.Skip(err)
	}
	o := startOwner(t, Options{})
	s := startBash(t, o, `for f in /proc/$$/fd/*; do [ -e $f ] && printf '%s ' ${f##*/}; done; echo`)
	if got := s.waitLine(); got != "0 1 2 " {
		t.Errorf("main sees %q", got)
	}
	s.Release()
}

// 8.17. Bash ignores SIGQUIT itself, so that one says nothing.
func TestSpawnMainHasDefaultSignalsAndUmask(t *testing.T) {
	mask := unix.Umask(0o027)
	defer unix.Umask(mask)
	signal.Ignore(unix.SIGHUP, unix.SIGTTOU) // as nohup would have it
	defer signal.Reset(unix.SIGHUP, unix.SIGTTOU)
	o := startOwner(t, Options{})
	s := startBash(t, o, `while read -r l; do case $l in SigIgn*|SigBlk*|SigPnd*) echo "$l";; esac; done </proc/self/status; umask`)
	for _, want := range []string{"SigPnd:\t0000000000000000", "SigBlk:\t0000000000000000", "SigIgn:\t0000000000000004", "0027"} {
		got := s.waitLine()
		if hex, ok := strings.CutPrefix(got, "SigIgn:\t"); ok {
			// 32 and 33 belong to the C library: make, for one, leaves them ignored,
			// and Go has no say in them.
			ignored, err := strconv.ParseUint(hex, 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			got = fmt.Sprintf("SigIgn:\t%016x", ignored&^(3<<31))
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	s.Release()
}

// 8.17: the runtime raises the soft limit for itself only. Run below the next
// test, by bash with a limit of 300.
func TestInLimitMainHasTheOriginalOpenFileLimit(t *testing.T) {
	if os.Getenv("PROCESS_TEST_LIMIT") == "" {
		t.Skip("runs below TestPlaceSmallLimit")
	}
	o := startOwner(t, Options{})
	s := startBash(t, o, "ulimit -S -n")
	if got := s.waitLine(); got != "300" {
		t.Errorf("the limit is %s, want 300", got)
	}
	s.Release()
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err != nil || own.Cur <= 300 {
		t.Errorf("our own limit is %d: the runtime has not raised it, and this shows nothing", own.Cur)
	}
}

// Options.Nice is main's, and its oom_score_adj is above ours once it has lived
// for a while, its descendants' included.
func TestSpawnMainIsNicerAndFirstToGo(t *testing.T) {
	priority, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // 20 is niceness 0 (getpriority(2))
	if err != nil {
		t.Fatal(err)
	}
	// The test may be nice itself, and nobody unprivileged becomes less so.
	nice := min(19, 20-priority+7)
	if nice == 20-priority {
		t.Skip("nobody is nicer than this test")
	}
	o := startOwner(t, Options{Nice: nice})
	s := startShape(t, o, "setsid", 2)
	read := func(pid int) string {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/oom_score_adj")
		return strings.TrimSpace(string(b))
	}
	own, err := strconv.Atoi(read(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	want := strconv.Itoa(min(1000, max(0, own)+100))
	// What main forks before Spawn has come to it keeps our niceness; main does not.
	if priority, err := unix.Getpriority(unix.PRIO_PROCESS, s.PID()); err != nil || 20-priority != nice {
		t.Errorf("the niceness is %d, %v, want %d", 20-priority, err, nice)
	}
	for _, pid := range bearing(s.marker) {
		waitFor(t, "oom_score_adj "+want, func() bool { return read(pid) == want })
	}
	if read(os.Getpid()) != strconv.Itoa(own) {
		t.Error("our own has changed")
	}
	s.wantSwept()
}

// A negative oom_score_adj of ours, which a test may not have, is no main's when
// Spawn returns.
func TestSpawnShieldsNoMain(t *testing.T) {
	o := startOwner(t, Options{})
	o.shielded = true
	s := startShape(t, o, "one", 0)
	b, err := os.ReadFile("/proc/" + strconv.Itoa(s.PID()) + "/oom_score_adj")
	if got := strings.TrimSpace(string(b)); err != nil || got != string(o.oomScore) {
		t.Errorf("oom_score_adj is %s, %v, want %s", got, err, o.oomScore)
	}
	s.wantSwept()
}

// 8.19.
func TestSpawnMainLeadsItsOwnSession(t *testing.T) {
	o := startOwner(t, Options{})
	s := startBash(t, o, `{ : <>/dev/tty; } 2>/dev/null && echo tty || echo none; sleep 100; true`)
	if got := s.waitLine(); got != "none" {
		t.Errorf("/dev/tty can be opened: %s", got)
	}
	st, err := readStat(s.PID())
	if err != nil || st.session != s.PID() || st.group != s.PID() {
		t.Errorf("session %d and group %d of %d, %v", st.session, st.group, s.PID(), err)
	}
	s.wantSwept()
}

// 8.21.
func TestSpawnErrorNamesStepPathAndErrno(t *testing.T) {
	o := startOwner(t, Options{})
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, path, dir string
		step, about     string
		errno           error
	}{
		{"missing shell", "/nowhere/bash", "", "exec", "/nowhere/bash", unix.ENOENT},
		{"missing shell, good directory", "/nowhere/bash", dir, "exec", "/nowhere/bash", unix.ENOENT},
		{"no execute bit", plain, "", "exec", plain, unix.EACCES},
		{"missing directory", "/bin/bash", "/nowhere", "chdir", "/nowhere", unix.ENOENT},
		{"not a directory", "/bin/bash", plain, "chdir", plain, unix.ENOTDIR},
		{"forbidden directory", "/bin/bash", closed, "chdir", closed, unix.EACCES},
		{"a NUL", "/bin/ba\x00sh", "", "exec", "/bin/ba\x00sh", unix.EINVAL},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.name == "forbidden directory" && os.Getuid() == 0 {
				t.Skip("nothing is forbidden to root")
			}
			_, err := o.Spawn(Command{Path: row.path, Dir: row.dir, Files: [3]int{0, 1, 2}})
			var spawnErr *SpawnError
			if !errors.As(err, &spawnErr) || spawnErr.Step != row.step || spawnErr.Path != row.about || !errors.Is(err, row.errno) {
				t.Fatalf("got %v, want step %s, %s, %v", err, row.step, row.about, row.errno)
			}
			want := "spawn: " + row.step + " " + row.about + ": " + row.errno.Error()
			if err.Error() != want {
				t.Errorf("the message is %q, want %q", err, want)
			}
		})
	}
	if c := o.Counts(); c.Trees != 0 {
		t.Errorf("counts are %+v", c)
	}
}

func TestSpawnAfterCloseIsRefused(t *testing.T) {
	o, err := NewOwner(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewOwner(Options{}); err == nil {
		t.Error("there are two owners")
	}
	o.Close()
	o.Close()
	if _, err := o.Spawn(Command{Path: "/bin/bash"}); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}
