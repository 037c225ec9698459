package relaytest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// process is one line of the process table. A zombie has an empty cmdline.
type process struct {
	pid, ppid int
	state     byte
	cmdline   string // arguments with a blank between them
	args      []string
}

func (p process) isServe() bool { return len(p.args) > 1 && p.args[1] == "serve" }

type table []process

// processes reads the process table. What ends meanwhile may be missing.
func processes() (table, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(dirs) == 0 {
		return nil, fmt.Errorf("read process table: %d entries: %w", len(dirs), err)
	}
	var ps table
	for _, dir := range dirs {
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue
		}
		// "pid (comm) state ppid …", where comm may hold blanks and brackets.
		after := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(after) < 2 {
			continue
		}
		p := process{state: after[0][0]}
		p.pid, _ = strconv.Atoi(filepath.Base(dir))
		p.ppid, _ = strconv.Atoi(after[1])
		raw, _ := os.ReadFile(dir + "/cmdline")
		p.args = strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
		p.cmdline = strings.Join(p.args, " ")
		ps = append(ps, p)
	}
	return ps, nil
}

func (ps table) find(ok func(process) bool) *process {
	for i := range ps {
		if ok(ps[i]) {
			return &ps[i]
		}
	}
	return nil
}

// below says whether p is a descendant of root.
func (ps table) below(p process, root int) bool {
	for range len(ps) { // the table is no snapshot: it may hold a circle
		if p.ppid == root {
			return true
		}
		parent := ps.find(func(q process) bool { return q.pid == p.ppid })
		if parent == nil {
			return false
		}
		p = *parent
	}
	return false
}

var markers atomic.Uint64

// Marker returns a word that no other command line has, to be put into a command:
// "sleep 300 # " + marker would not do, since only bash's own line has comments;
// "exec -a "+marker+" sleep 300" marks the process itself.
func Marker() string {
	return fmt.Sprintf("relaytest-%d-%d", os.Getpid(), markers.Add(1))
}

// Marked returns the pids of living processes whose command line contains marker.
func Marked(t testing.TB, marker string) []int {
	t.Helper()
	pids, err := marked(marker)
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

func marked(marker string) ([]int, error) {
	ps, err := processes()
	var pids []int
	for _, p := range ps {
		if p.pid != os.Getpid() && strings.Contains(p.cmdline, marker) {
			pids = append(pids, p.pid)
		}
	}
	return pids, err
}

// goneHang is how long WantNoProcess waits at most.
const goneHang = 10 * time.Second

// WantNoProcess waits until no living process has marker in its command line.
func WantNoProcess(t testing.TB, marker string) {
	t.Helper()
	var left []int
	err := poll(goneHang, func() (none bool, err error) {
		left, err = marked(marker)
		return len(left) == 0, err
	})
	if err != nil {
		t.Errorf("processes with %q: %v: %v", marker, err, left)
	}
}

// WaitProcess waits until n processes have marker in their command line.
func WaitProcess(t testing.TB, marker string, n int) {
	t.Helper()
	var there []int
	err := poll(startHang, func() (enough bool, err error) {
		there, err = marked(marker)
		return len(there) >= n, err
	})
	if err != nil {
		t.Fatalf("wait for %d processes with %q: %v: %v", n, marker, err, there)
	}
}

// Zombies returns the pids of dead processes that pid has not reaped.
func Zombies(t testing.TB, pid int) []int {
	t.Helper()
	ps, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, p := range ps {
		if p.ppid == pid && p.state == 'Z' {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// poll asks until the answer is yes. The kernel tells nobody about other people's
// processes, so it has to be asked again.
func poll(bound time.Duration, ok func() (bool, error)) error {
	for deadline := time.Now().Add(bound); ; time.Sleep(5 * time.Millisecond) {
		if done, err := ok(); err != nil || done {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New("not within " + bound.String())
		}
	}
}
