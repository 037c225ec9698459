package relaytest

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestWaysToStartAWorker(t *testing.T) {
	for _, c := range []struct {
		name    string
		opts    []WorkerOption
		command string
		want    string
	}{
		{"plain", nil, "echo $SANDBOX_ID", "relaytest\n"},
		{"uid", []WorkerOption{WithUID(65534, 65534)}, "id -u; touch $HOME/x && echo ok", "65534\nok\n"},
		{"setup", []WorkerOption{WithSetup("ulimit -Sn 512")}, "ulimit -Sn", "512\n"},
		{"pid 1", []WorkerOption{AsPID1()}, "echo $PPID; ls -d /proc/1", "1\n/proc/1\n"},
		{"pty", []WorkerOption{OnPTY()}, "test -c /dev/tty && : >/dev/tty && echo tty", "tty\n"},
		{"pty and setup", []WorkerOption{OnPTY(), WithSetup("umask 7")}, "umask", "0007\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := New(t)
			w := startFake(t, r, nil, c.opts...)
			s := r.Attach(t)
			s.Exec(t, 1, c.command)
			s.WantOutput(t, 1, c.want, "")
			w.WaitLog(t, "fake worker started")
			if w.DaemonPID(t) != w.PID() {
				t.Errorf("daemon %d below %d", w.DaemonPID(t), w.PID())
			}
			w.Signal(t, 15)
			if code := w.Wait(t); code != 0 {
				t.Errorf("ended with %d", code)
			}
		})
	}
}

func TestProcessesAreFoundByMarker(t *testing.T) {
	r := New(t)
	startFake(t, r, nil)
	s := r.Attach(t)
	m := Marker()
	WantNoProcess(t, m)
	s.Exec(t, 1, "exec -a "+m+" sleep 300")
	WaitProcess(t, m, 1)
	pids := Marked(t, m)
	if len(pids) != 1 {
		t.Fatalf("marked %v", pids)
	}
	s.Exec(t, 2, "kill -9 "+strconv.Itoa(pids[0]))
	WantNoProcess(t, m)
	s.WantEnd(t, 1, -1)
}

// TestBrokenMatchesOnlyAtALinesStart: a command may print "panic: ".
func TestBrokenMatchesOnlyAtALinesStart(t *testing.T) {
	if broken.MatchString(`{"command":"panic: x"}`) {
		t.Error("a quoted panic counts")
	}
	for _, text := range []string{"{}\npanic: x", "fatal error: x", "==\nWARNING: DATA RACE\n"} {
		if !broken.MatchString(text) {
			t.Errorf("%q does not count", text)
		}
	}
}

func TestWorkerBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("links the worker")
	}
	if os.Getenv("EXECWORKER_BIN") != "" {
		t.Skip("a binary is given")
	}
	if p := Binary(t); !strings.HasSuffix(p, "/execworker") {
		t.Errorf("built %s", p)
	}
}
