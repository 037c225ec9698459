package process

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestInspectReadsTheCall(t *testing.T) {
	read := strconv.Itoa(unix.SYS_READ)
	wait := strconv.Itoa(unix.SYS_WAIT4)
	tests := []struct {
		line, name string
		fd         int
	}{
		{"running", "", -1},
		{"-1 0x7ffd0000 0x7f0000", "", -1},
		{"", "", -1},
		{read + " 0x5 0x1 0x2 0x3 0x4 0x5 0x7fff40e13778 0x7f09884ed503", "read", 5},
		{wait + " 0xffffffff 0x1 0x2 0x3 0x4 0x5 0x7fff40e13778 0x7f09884ed503", "wait4", -1},
		{read + " 0xffffffffffffffff 0x1 0x2 0x3 0x4 0x5 0x7fff40e13778 0x7f09884ed503", "read", -1},
		{read + " 0xdeadbeef00000007 0x1 0x2 0x3 0x4 0x5 0x7fff40e13778 0x7f09884ed503", "read", 7},
		{"9999 0x5 0x1 0x2 0x3 0x4 0x5 0x7fff40e13778 0x7f09884ed503", "syscall 9999", -1},
		// The stack of a 32-bit program, to which the number means another call.
		{read + " 0x5 0x1 0x2 0x3 0x4 0x5 0xffe13778 0xf7f0d503", "syscall " + read, -1},
	}
	for _, test := range tests {
		if name, fd := parseCall(strings.Fields(test.line)); name != test.name || fd != test.fd {
			t.Errorf("%q gives %q, %d; want %q, %d", test.line, name, fd, test.name, test.fd)
		}
	}
}

// A slip in the table would show a process in a call that it is not in.
func TestInspectCallsAreNamedAfterTheirNumbers(t *testing.T) {
	rows := 0
	for _, path := range []string{"inspectcalls.go", "inspectcalls_amd64.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Skip("the source is not here: ", err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			row, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			rows++
			constant := row.Key.(*ast.SelectorExpr).Sel.Name
			name := row.Value.(*ast.CompositeLit).Elts[0].(*ast.BasicLit).Value
			if want := strconv.Quote(strings.ToLower(strings.TrimPrefix(constant, "SYS_"))); name != want {
				t.Errorf("%s is called %s", constant, name)
			}
			return false
		})
	}
	if rows < 60 {
		t.Errorf("%d rows were seen", rows)
	}
}

func TestInspectReadsTheInodeOfAPipe(t *testing.T) {
	tests := []struct {
		target string
		inode  uint64
		ok     bool
	}{
		{"pipe:[812]", 812, true},
		{"socket:[812]", 0, false},
		{"/tmp/pipe:[812]", 0, false},
		{"pipe:[", 0, false},
	}
	for _, test := range tests {
		if inode, ok := pipeInode([]byte(test.target)); ok != test.ok || inode != test.inode {
			t.Errorf("%q gives %d, %v", test.target, inode, ok)
		}
	}
}

func TestInspectReadsTheCountersOfStat(t *testing.T) {
	line := "812 (a) R 9 (b) S 7 70 71 0 -1 4194304 10 11 12 13 300 45 5 6 20 0 9 0 1396722 2998272 395 1 2 3"
	s, err := parseStat([]byte(line))
	want := stat{name: "a) R 9 (b", state: 'S', ppid: 7, group: 70, session: 71, threads: 9, cpu: 345, rss: 395, started: 1396722}
	if err != nil || s != want {
		t.Errorf("got %+v, %v; want %+v", s, err, want)
	}
}

func TestInspectGroupsWhatIsUnreadable(t *testing.T) {
	var g gaps
	for pid := range 20 {
		g.add("the system call", unix.EACCES, pid+1)
	}
	g.add("the system call", unix.EACCES, 5) // said already
	g.add("the system call", unix.EPERM, 30)
	g.add("the process table", errNoTime, 0)
	want := []string{
		"the system call of pids 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 and 4 more: permission denied",
		"the system call of pid 30: operation not permitted",
		"the process table: there was no time",
	}
	if got := g.sentences(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// However often somebody asks, there is a look that is old enough.
func TestInspectKeepsALookToCompareWith(t *testing.T) {
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	tests := []struct {
		name  string
		looks []int // ms
		now   int
		base  int // -1 is none
		wait  int // -1 is for ever
	}{
		{"none", nil, 0, -1, -1},
		{"young", []int{0}, 40, -1, 60},
		{"just old enough", []int{0}, 100, 0, 0},
		{"oldest allowed", []int{0}, 5000, 0, 0},
		{"too old", []int{0}, 5001, -1, -1},
		{"the newest that is old enough", []int{0, 150}, 260, 150, 0},
		{"the newest is too young", []int{0, 150}, 200, 0, 0},
		{"asked all the time", []int{0, 30, 60, 90, 120, 150, 180, 210, 225}, 230, 120, 0},
		{"young after a long pause", []int{0, 6000}, 6050, -1, 50},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var s *samples
			if test.looks != nil {
				s = new(samples)
			}
			for _, look := range test.looks {
				s.add(sample{at: at(look)})
			}
			base, ok := s.base(at(test.now))
			if ok != (test.base >= 0) || ok && !base.at.Equal(at(test.base)) {
				t.Errorf("base is %v, %v", base.at.Sub(began), ok)
			}
			wait, ok := s.wait(at(test.now))
			if ok != (test.wait >= 0) || ok && wait != time.Duration(test.wait)*time.Millisecond {
				t.Errorf("wait is %v, %v", wait, ok)
			}
		})
	}
}

// A process that was there before the first look and not in it cannot be
// compared; one that has begun since has used all it has in the window.
func TestInspectComparesOnlyWhatItCan(t *testing.T) {
	now := time.Now()
	m := met{pid: 5, stat: stat{started: ticksOf(now)}}
	look := sample{cpu: map[incarnation]time.Duration{m.incarnation(): time.Second}}
	tests := []struct {
		name string
		base sample
		used time.Duration
		ok   bool
	}{
		{"seen before", sample{at: now, cpu: map[incarnation]time.Duration{m.incarnation(): time.Second / 4}}, 3 * time.Second / 4, true},
		{"begun since", sample{at: now.Add(-time.Second)}, time.Second, true},
		{"missed before", sample{at: now.Add(time.Second)}, 0, false},
		{"another of that number", sample{at: now.Add(-time.Second), cpu: map[incarnation]time.Duration{{5, 1}: time.Minute}}, time.Second, true},
	}
	for _, test := range tests {
		if used, ok := look.since(test.base, m); used != test.used || ok != test.ok {
			t.Errorf("%s: used %v, %v", test.name, used, ok)
		}
	}
}

// The number that the scan has met may be another process's by now.
func TestInspectDoesNotTakeTheNextOfANumber(t *testing.T) {
	s, err := readStat(unix.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	m := met{pid: unix.Getpid(), stat: s}
	if _, ok := m.detail(new(gaps)); !ok {
		t.Error("not found")
	}
	m.stat.started--
	if d, ok := m.detail(new(gaps)); ok {
		t.Errorf("took %+v", d)
	}
}

// Being out of descriptors does not make a process go away.
func TestInspectSaysThatItIsOutOfDescriptors(t *testing.T) {
	s, err := readStat(unix.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var limit unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		t.Fatal(err)
	}
	none := unix.Rlimit{Cur: 0, Max: limit.Max}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &none, nil); err != nil {
		t.Fatal(err)
	}
	g := new(gaps)
	d, ok := met{pid: unix.Getpid(), stat: s}.detail(g)
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	if !ok || d.Name != s.name || len(g.list) != 1 || g.list[0].why != unix.EMFILE {
		t.Errorf("got %+v, %v, %+v", d, ok, g.list)
	}
}

// ticksOf is the inverse of sinceBoot.
func ticksOf(at time.Time) int64 {
	var up unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &up)
	return int64((time.Duration(up.Nano()) - time.Since(at)) / (time.Second / ticksPerSecond))
}
