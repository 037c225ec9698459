package contract

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"execworker/test/relaytest"
)

const python = `exec python3 -c "import ctypes, os, threading, time; `

// Each command is stuck in its own way, and the worker says in which.
func TestStuckExecExplainsItself(t *testing.T) {
	for _, c := range []struct {
		name, command, kind string
		says                []string
	}{
		{"sleeping", "sleep 300", "sleeping", []string{"sleep", "nanosleep"}},
		{"behind a shell", "sleep 300; true", "sleeping", []string{"sleep", "main waits for it"}},
		{"after a stop", "sleep 300 & until grep -q nanosleep /proc/$!/wchan; do :; done; kill -STOP $!; until grep -q '^State:.T' /proc/$!/status; do :; done; kill -CONT $!; wait", "sleeping", []string{"sleep", "restart_syscall", "main waits for it"}},
		{"in a pipeline", "sleep 300 | cat | grep x", "sleeping", []string{"sleep", "one of 3 that main may wait for"}},
		{"in a substitution", "x=$(sleep 300); echo $x", "sleeping", []string{"sleep", "main waits to read from pipe:[", "and may wait for it"}},
		{"computing", "while :; do :; done", "cpu", []string{"main", "% of a CPU"}},
		{"computing in a child", "(while :; do :; done) | cat", "cpu", []string{"% of a CPU"}},
		{"stopped", "kill -STOP $$; true", "stopped", []string{"main", "SIGCONT"}},
		{"a child is stopped", "bash -c 'kill -STOP $$; true'; true", "stopped", []string{"SIGCONT"}},
		{"a FIFO nobody opens", "mkfifo f1; cat f1", "pipe", []string{"FIFO"}},
		{"a FIFO nobody writes to", "mkfifo f2; exec 3<>f2; read x <&3", "pipe", []string{"waits to read"}},
		{"a child that cannot begin", python + "os.mkfifo('f3'); os.posix_spawn('/bin/true', ['true'], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, 'f3', os.O_RDONLY, 0)])\"", "pipe", []string{"FIFO", "main waits for it"}},
		{"without its first thread", python + "threading.Thread(target=time.sleep, args=(300,)).start(); ctypes.CDLL(None).pthread_exit(None)\"", "unreadable", []string{"main", "lives on without its first thread"}},
		{"a thread computes", python + "threading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()\"", "cpu", []string{"main", "% of a CPU"}},
		{"a file lock", "flock l sleep 300 & sleep 0.2; flock l true", "lock", []string{"file lock", "which pid", "holds"}},
		{"a terminal", "sleep 300 | script -qec 'read x' /dev/null", "terminal", []string{"terminal"}},
		{"a child that waits for a socket", "exec 3<>/dev/tcp/127.0.0.1/$PORT; read x <&3", "socket", []string{"waits to read"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath("python3"); err != nil && strings.HasPrefix(c.command, python) {
				t.Skip("there is no python3")
			}
			_, s, w := attach(t, nil)
			command := strings.ReplaceAll(c.command, "$PORT", quietPort(t))
			s.Exec(t, 1, command)
			waitSentence(t, overSocket(w), c.kind, c.says)
			s.Abort(t, 1)
			s.WantEnd(t, 1, -1)
		})
	}
}

// waitSentence waits until exec 1 is stuck for the reason that is meant, and says
// all of it: a command has to get there first.
func waitSentence(t *testing.T, a api, kind string, says []string) {
	t.Helper()
	missing := func(sentence string) int {
		return slices.IndexFunc(says, func(want string) bool { return !strings.Contains(sentence, want) })
	}
	sentence := a.waitWhy(t, "1", kind)
	for deadline := time.Now().Add(20 * time.Second); missing(sentence) >= 0 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		sentence = a.waitWhy(t, "1", kind)
	}
	if i := missing(sentence); i >= 0 {
		t.Errorf("%q does not say %q", sentence, says[i])
	}
}

func TestQueuedExecNamesWhoHasTheSlots(t *testing.T) {
	_, s, w := attach(t, relaytest.Env{"WORKER_MAX_CONCURRENT": "2"})
	s.Exec(t, 11, "sleep 300")
	s.Exec(t, 12, "sleep 300")
	s.Exec(t, 13, "true")
	s.Exec(t, 14, "true")
	if got := overSocket(w).waitWhy(t, "13", "queued"); !strings.Contains(got, "next in line") || !strings.Contains(got, "11 (") || !strings.Contains(got, "12 (") {
		t.Errorf("13: %q", got)
	}
	if got := overSocket(w).waitWhy(t, "14", "queued"); !strings.Contains(got, "2nd in line") {
		t.Errorf("14: %q", got)
	}
	s.Abort(t, 11)
	s.Abort(t, 12)
	s.WantEnd(t, 14, 0)
}

func TestExecBlockedByTheRelaySaysSo(t *testing.T) {
	_, s, w := attach(t, nil)
	s.Stall()
	s.Exec(t, 1, "yes", streaming)
	if got := overSocket(w).waitWhy(t, "1", "send_blocked"); !strings.Contains(got, "the relay does not read") {
		t.Errorf("%q", got)
	}
	s.Resume()
	s.Abort(t, 1)
	s.WantEnd(t, 1, -1)
}

// Main has ended, and a process in a session of its own keeps writing.
func TestExecWhoseOutputIsHeldNamesTheHolder(t *testing.T) {
	_, s, w := attach(t, nil)
	s.Stall() // so that the draining lasts
	s.Exec(t, 1, "setsid yes & sleep 0.3", streaming)
	a := overSocket(w)
	a.waitWhy(t, "1", "send_blocked")
	var detail struct {
		State string
		Pipes []struct {
			Stream  string
			Writes  bool
			Process struct{ Comm string }
		}
	}
	deadline := time.Now().Add(20 * time.Second)
	for ; detail.State != "draining" && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		a.get(t, "/admin/inflight/1?format=json", &detail)
	}
	found := false
	for _, h := range detail.Pipes {
		found = found || h.Stream == "stdout" && h.Writes && h.Process.Comm == "yes"
	}
	if detail.State != "draining" || !found {
		t.Errorf("the holder is not named: %+v", detail)
	}
	s.Resume()
	s.WantEnd(t, 1, 0)
}

func TestSurvivorSaysWhatItDoesAndCanBeEnded(t *testing.T) {
	_, s, w := attach(t, nil)
	marker := relaytest.Marker()
	s.Exec(t, 7, "(echo late; exec -a "+marker+" sleep 300) & exit 3")
	s.WantEnd(t, 7, 3)
	w.WaitLog(t, "survivors found")
	a := overSocket(w)
	var list struct {
		Survivors []struct {
			ReqID    string `json:"req_id"`
			Why      struct{ Kind, Sentence string }
			Evidence []string
		}
	}
	a.get(t, "/admin/survivors/7?format=json", &list)
	if len(list.Survivors) != 1 || list.Survivors[0].Why.Kind != "survivor" || !strings.Contains(list.Survivors[0].Why.Sentence, "nanosleep") {
		t.Errorf("survivors: %+v", list)
	}
	if got := a.ask(t, "POST", "/admin/inflight/7/abort", ""); got.code != 409 || !strings.Contains(got.body, "survivors/7/abort") {
		t.Errorf("abort of an exec that has ended: %d %s", got.code, got.body)
	}
	if got := a.ask(t, "POST", "/admin/survivors/7/abort?wait=10s", ""); got.code != 200 {
		t.Errorf("abort of survivors: %d %s", got.code, got.body)
	}
	relaytest.WantNoProcess(t, marker)
	if got := a.ask(t, "POST", "/admin/survivors/7/abort", ""); got.code != 404 {
		t.Errorf("abort of none: %d %s", got.code, got.body)
	}
}

// The command is gone, and what it wrote is not: that is the relay's doing.
func TestKilledExecThatTheRelayBlocksSaysSo(t *testing.T) {
	_, s, w := attach(t, nil)
	s.Stall()
	s.Exec(t, 1, "yes", streaming, relaytest.Timeout(1))
	waitSentence(t, overSocket(w), "send_blocked", []string{"being killed for", "it outlived its timeout of 1.0s", "the relay does not read"})
	s.Resume()
	s.WantError(t, 1, "timeout:1")
}
