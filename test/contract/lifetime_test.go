package contract

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"execworker/test/relaytest"
)

func TestCaseO01BackgroundJobKeepsStdout(t *testing.T) {
	_, s, w := attach(t, nil)
	for i, code := range []int32{0, 3} {
		id, marker := uint64(i+1), relaytest.Marker()
		s.Exec(t, id, fmt.Sprintf("(exec -a %s sleep 300) & echo started; exit %d", marker, code), streaming)
		began := firstOutput(t, s, id)
		within(t, "the end", s.WantEnd(t, id, code).At.Sub(began), 2*time.Second)
		s.WantOutput(t, id, "started\n", "")
		relaytest.WaitProcess(t, marker, 1)
		s.WantNothingMore(t, id)
	}
	w.WaitLog(t, "survivors found")
	alive(t, s)
}

func TestCaseO01BackgroundJobThatGoesOnWriting(t *testing.T) {
	_, s, _ := attach(t, nil)
	marker := relaytest.Marker()
	s.Exec(t, 1, fmt.Sprintf("(exec -a %s bash -c 'while echo more; do sleep 0.05; done') & exit 3", marker), streaming)
	s.WantEnd(t, 1, 3)
	s.WantNothingMore(t, 1)
	relaytest.WaitProcess(t, marker, 1)
	alive(t, s)
}

func TestAbortAfterMainsEndKeepsItsExitCode(t *testing.T) {
	_, s, _ := attach(t, nil)
	marker := relaytest.Marker()
	s.Exec(t, 1, "(exec -a "+marker+" bash -c 'while echo more; do sleep 0.05; done') & exit 3", streaming)
	s.WaitOutput(t, 1, "more\nmore\nmore\n") // the shell has long ended
	s.Abort(t, 1)
	s.WantEnd(t, 1, 3)
	if left := relaytest.Marked(t, marker); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	alive(t, s)
}

func TestOutputThatEndsEarlyDoesNotEndTheExec(t *testing.T) {
	_, s, _ := attach(t, nil)
	s.Exec(t, 1, "exec >&- 2>&-; sleep 0.5; exit 5")
	s.Exec(t, 2, "exec >&- 2>&-; sleep 300", relaytest.Timeout(1))
	s.Exec(t, 3, "echo up; exec >&- 2>&-; sleep 300", streaming)
	s.WaitOutput(t, 3, "up")
	s.Abort(t, 3)
	s.WantEnd(t, 3, -1)
	s.WantEnd(t, 1, 5)
	s.WantError(t, 2, "timeout:1")
	alive(t, s)
}

func TestCaseO02TimeoutReachesTheWholeTree(t *testing.T) {
	_, s, _ := attach(t, relaytest.Env{"WORKER_MAX_CONCURRENT": "8"})
	marker := relaytest.Marker()
	commands := []string{
		"s | cat",
		"s; true",
		"(s)",
		"trap '' TERM INT HUP; s; true",
		"kill -STOP $$; true",
		"s & setsid -w bash -c 'exec -a " + marker + " sleep 300'",
	}
	sent := time.Now()
	for i, command := range commands {
		s.Exec(t, uint64(i), "s() { bash -c 'exec -a "+marker+" sleep 300'; }\n"+command, relaytest.Timeout(1))
	}
	for i, command := range commands {
		within(t, command, s.WantError(t, uint64(i), "timeout:1").At.Sub(sent), 4*time.Second)
	}
	relaytest.WantNoProcess(t, marker)
	alive(t, s)
}

func TestCaseO03DescendantsThatDetachDieWithTheAbort(t *testing.T) {
	_, s, _ := attach(t, nil)
	marker := relaytest.Marker()
	sleep := "bash -c 'exec -a " + marker + " sleep 311' >/dev/null 2>&1 </dev/null &"
	s.Exec(t, 3, "setsid "+sleep+" (setsid "+sleep+") & env -i setsid "+sleep+" nohup "+sleep+" echo up; exec -a "+marker+" sleep 312", streaming)
	s.WaitOutput(t, 3, "up")
	relaytest.WaitProcess(t, marker, 5)
	s.Abort(t, 3)
	s.WantEnd(t, 3, -1)
	if left := relaytest.Marked(t, marker); len(left) > 0 {
		t.Errorf("the frame came before the proof: %v are left", left)
	}
	alive(t, s)
}

func TestCaseO04LongCommand(t *testing.T) {
	_, s, _ := attach(t, nil)
	s.Exec(t, 4, "echo ok #"+strings.Repeat("x", 200000))
	s.WantEnd(t, 4, 0)
	s.WantOutput(t, 4, "ok\n", "")
	s.Exec(t, 5, strings.Repeat("# pad\n", 40000)+`cat; echo "$0"; exit 9`, relaytest.Stdin([]byte("in ")))
	s.WantEnd(t, 5, 9)
	s.WantOutput(t, 5, "in bash\n", "")
	s.Exec(t, 6, strings.Repeat("# pad\n", 40000)+"if")
	if r := s.WantEnd(t, 6, 2); !bytes.Contains(r.Stderr, []byte("syntax error")) {
		t.Errorf("stderr is %q", r.Stderr)
	}
	alive(t, s)
}

func TestCaseO05NULInTheCommand(t *testing.T) {
	_, s, w := attach(t, nil)
	s.Exec(t, 6, "touch "+filepath.Join(w.Dir, "ran")+"\x00b")
	s.WantError(t, 6, "spawn: command: has a NUL byte at offset ")
	if _, err := os.Stat(filepath.Join(w.Dir, "ran")); err == nil {
		t.Error("the part before the NUL ran")
	}
	alive(t, s)
}

func TestCaseO06BigStdin(t *testing.T) {
	_, s, _ := attach(t, nil)
	mega := make([]byte, 1<<20)
	s.Exec(t, 8, "exit 3", relaytest.Stdin(mega))
	s.Exec(t, 9, "sleep 1; echo done", relaytest.Stdin(mega))
	echoed := bytes.Repeat([]byte("0123456789abcde\n"), 3<<16)
	s.Exec(t, 10, "cat", relaytest.Stdin(echoed), streaming)
	s.WantEnd(t, 8, 3)
	s.WantEnd(t, 9, 0)
	s.WantOutput(t, 9, "done\n", "")
	s.WantEnd(t, 10, 0)
	s.WantOutput(t, 10, string(echoed), "")
	alive(t, s)
}

func TestCaseO07NoStdinIsEndOfFile(t *testing.T) {
	_, s, _ := attach(t, nil)
	s.Exec(t, 11, "cat; echo rc=$?")
	s.Exec(t, 12, "read -r x; echo rc=$?")
	s.WantEnd(t, 11, 0)
	s.WantOutput(t, 11, "rc=0\n", "")
	s.WantEnd(t, 12, 0)
	s.WantOutput(t, 12, "rc=1\n", "")
	alive(t, s)
}

func TestCaseO08NoTerminalLeaksIn(t *testing.T) {
	_, s, w := attach(t, nil, relaytest.OnPTY())
	s.Exec(t, 13, "read x </dev/tty; echo rc=$?", relaytest.Timeout(5))
	s.Exec(t, 14, "echo leak-$((40+2)) >/dev/tty; echo rc=$?")
	for _, id := range []uint64{13, 14} {
		if r := s.WantEnd(t, id, 0); string(r.Stdout) != "rc=1\n" || !strings.Contains(string(r.Stderr), "No such device or address") {
			t.Errorf("%d: stdout %q, stderr %q", id, r.Stdout, r.Stderr)
		}
	}
	if strings.Contains(w.Stderr(), "leak-42") {
		t.Error("a command has written to the worker's terminal")
	}
	alive(t, s)
}

func TestCaseO09NoZombiesAsPID1(t *testing.T) {
	_, s, w := attach(t, nil, relaytest.AsPID1())
	for id := range uint64(20) {
		s.Exec(t, id, "(sleep 0.05 &) ; exit 0")
	}
	for id := range uint64(20) {
		s.WantEnd(t, id, 0)
	}
	alive(t, s)
	deadline := time.Now().Add(20 * time.Second)
	for len(relaytest.Zombies(t, w.DaemonPID(t))) > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("zombies: %v", relaytest.Zombies(t, w.DaemonPID(t)))
		}
		time.Sleep(50 * time.Millisecond) // the kernel tells nobody when a zombie goes
	}
}
