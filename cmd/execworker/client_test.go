package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// adminLink is a relay with a worker whose socket is known.
func adminLink(t *testing.T) (l *link, socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ew-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "admin.sock")
	return startLink(t, "ADMIN_SOCKET="+socket), socket
}

// askWorker runs one of the commands that ask, and returns what it printed.
func askWorker(t *testing.T, socket string, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	s := start(t, []string{"ADMIN_SOCKET=" + socket}, nil, args...)
	s.wantCode(t, code)
	return s.stdout.String(), s.stderr.String()
}

// stuckExec starts a command and returns its req_id once it runs.
func stuckExec(t *testing.T, l *link, socket string, command string) (reqID string, exec *started) {
	t.Helper()
	exec = l.exec(t, "--", "echo begun; "+command)
	exec.stdout.wait(t, "begun")
	stdout, _ := askWorker(t, socket, exitOK, "inflight", "--json")
	var list struct {
		Execs []struct {
			ReqID string `json:"req_id"`
		}
	}
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || len(list.Execs) != 1 {
		t.Fatalf("%v in %s", err, stdout)
	}
	return list.Execs[0].ReqID, exec
}

func TestOperatorFindsAndAbortsAStuckExec(t *testing.T) {
	l, socket := adminLink(t)
	id, exec := stuckExec(t, l, socket, "sleep 300")
	stdout, _ := askWorker(t, socket, exitOK, "inflight")
	if !strings.Contains(stdout, id) || !strings.Contains(stdout, "nanosleep") {
		t.Errorf("inflight: %s", stdout)
	}
	if stdout, _ = askWorker(t, socket, exitOK, "why", id); !strings.Contains(stdout, "req_id "+id+": running for") {
		t.Errorf("why: %s", stdout)
	}
	if stdout, _ = askWorker(t, socket, exitOK, "abort", id, "--reason", "stuck", "--wait", "20s"); !strings.Contains(stdout, `aborted by an operator ("stuck")`) {
		t.Errorf("abort: %s", stdout)
	}
	exec.wantCode(t, exitSignal)
	if stdout, _ = askWorker(t, socket, exitOK, "why", id); !strings.Contains(stdout, "aborted by an operator") {
		t.Errorf("why, after: %s", stdout)
	}
	if stdout, _ = askWorker(t, socket, exitOK, "execs", "--outcome", "abort"); !strings.Contains(stdout, id) {
		t.Errorf("execs: %s", stdout)
	}
	if _, stderr := askWorker(t, socket, exitFailed, "abort", id); !strings.Contains(stderr, "has ended") || !strings.Contains(stderr, "/admin/execs/"+id) {
		t.Errorf("abort, again: %s", stderr)
	}
}

func TestSurvivorsByTheCommandLine(t *testing.T) {
	l, socket := adminLink(t)
	l.exec(t, "--", "(echo late; sleep 301) >&2 & exit 3").wantCode(t, 3)
	l.worker.stderr.wait(t, "survivors found")
	stdout, _ := askWorker(t, socket, exitOK, "survivors", "--json")
	var list struct {
		Survivors []struct {
			ReqID string `json:"req_id"`
		}
	}
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || len(list.Survivors) != 1 {
		t.Fatalf("%v in %s", err, stdout)
	}
	id := list.Survivors[0].ReqID
	if stdout, _ = askWorker(t, socket, exitOK, "why", id); !strings.Contains(stdout, "it left pid") {
		t.Errorf("why: %s", stdout)
	}
	if stdout, _ = askWorker(t, socket, exitOK, "abort", "--survivors", "--wait=20s", id); !strings.Contains(stdout, "nothing that req_id") {
		t.Errorf("abort: %s", stdout)
	}
}

func TestClientsSayWhatTheySee(t *testing.T) {
	_, socket := adminLink(t)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"status"}, "sbx-laptop-1"}, {[]string{"connections"}, "attached to"}, {[]string{"survivors"}, "no command has left"},
		{[]string{"inflight"}, "nothing is in flight"}, {[]string{"execs"}, "no exec has ended"}, {[]string{"health"}, "ok"}, {[]string{"health", "--live"}, "ok"},
		{[]string{"health", "--json"}, `"healthy": true`}, {[]string{"status", "--json"}, `"sandbox_id": "sbx-laptop-1"`},
	} {
		if stdout, _ := askWorker(t, socket, exitOK, c.args...); !strings.Contains(stdout, c.says) {
			t.Errorf("%v: %s", c.args, stdout)
		}
	}
}

func TestExitCodesOfClients(t *testing.T) {
	l, socket := adminLink(t)
	nowhere := filepath.Join(t.TempDir(), "s")
	for _, c := range []struct {
		socket string
		code   int
		args   []string
		says   string
	}{
		{socket, exitFailed, []string{"why", "99"}, "never came"}, {socket, exitFailed, []string{"why", "0x10"}, "req_id"}, {socket, exitFailed, []string{"why", "../status"}, "req_id"},
		{socket, exitFailed, []string{"inflight", "--state", "dead"}, "state"}, {socket, exitUsage, []string{"why"}, "req_id"}, {socket, exitUsage, []string{"inflight", "--nonsense"}, "nonsense"},
		{nowhere, exitNoWorker, []string{"status"}, nowhere}, {nowhere, exitNoWorker, []string{"health"}, "no such socket"}, {"relative", exitUsage, []string{"status"}, "ADMIN_SOCKET"},
	} {
		if _, stderr := askWorker(t, c.socket, c.code, c.args...); !strings.Contains(stderr, c.says) {
			t.Errorf("%v: %s", c.args, stderr)
		}
	}
	l.relay.signal(t, syscall.SIGTERM) // no relay: not ready after a while, but alive
	l.relay.wantCode(t, exitOK)
	askWorker(t, socket, exitOK, "health", "--live")
}

func TestWatchGoesOnUntilASignal(t *testing.T) {
	_, socket := adminLink(t)
	for _, c := range []struct {
		args []string
		says string
	}{{[]string{"inflight", "--watch"}, "nothing is in flight"}, {[]string{"inflight", "--watch", "--json"}, `"type":"snapshot"`}} {
		s := start(t, []string{"ADMIN_SOCKET=" + socket}, nil, c.args...)
		s.stdout.wait(t, c.says)
		if strings.Contains(s.stdout.String(), "\x1b") {
			t.Error("it draws on what is no terminal")
		}
		s.signal(t, syscall.SIGINT)
		s.wantCode(t, exitOK)
	}
}

// A worker that goes away is an end with a word.
func TestWatchEndsWithTheWorker(t *testing.T) {
	l, socket := adminLink(t)
	s := start(t, []string{"ADMIN_SOCKET=" + socket}, nil, "inflight", "--watch", "--json")
	s.stdout.wait(t, "snapshot")
	l.worker.signal(t, syscall.SIGTERM)
	s.wantCode(t, exitNoWorker)
}

func TestSecretsAreNotAmongTheFlags(t *testing.T) {
	var out strings.Builder
	all := new(commands)
	parser, err := newParser(all, &program{stdout: &out, stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	clearSettings(t)
	t.Setenv("ADMIN_TOKEN", "hunter2-hunter2-hunter2")
	t.Setenv("WORKER_MAX_CONCURRENT", "7")
	t.Setenv("WORKER_LABELS", "f=6,e=5,d=4, c=3,b=2,a=1")
	t.Setenv("ADMIN_HOSTS", "a.internal, b")
	chosen, err := parse(parser, []string{"serve", "--sandbox-id", "x"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][2]string{
		"ADMIN_TOKEN": {"set", "environment"}, "SANDBOX_TOKEN": {"unset", "default"}, "WORKER_MAX_CONCURRENT": {"7", "environment"},
		"WORKER_LABELS": {"a=1,b=2,c=3,d=4,e=5,f=6", "environment"}, "ADMIN_HOSTS": {"a.internal,b", "environment"}, "SANDBOX_ID": {"x", "flag"}, "EXECWORKER_DRAIN": {"10s", "default"}, "RELAY_TLS": {"false", "default"},
	}
	for _, f := range settingsInUse(chosen) {
		if strings.Contains(f.Value, "hunter2") {
			t.Errorf("%s shows a secret", f.Name)
		}
		if w, ok := want[f.Name]; ok && (f.Value != w[0] || f.Source != w[1]) {
			t.Errorf("%s is %q from %s, want %v", f.Name, f.Value, f.Source, w)
		}
		delete(want, f.Name)
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
}

func TestAdminSettings(t *testing.T) {
	for _, c := range []struct{ variable, says string }{
		{"ADMIN_ADDR=0.0.0.0:9690", "loopback"}, {"ADMIN_ADDR=:9690", "loopback"}, {"ADMIN_ADDR=127.0.0.1", "HOST:PORT"}, {"ADMIN_ADDR=127.0.0.1:80,192.0.2.1:9690", "192.0.2.1"},
		{"ADMIN_TOKEN=short", "16"}, {"ADMIN_TOKEN=", "ADMIN_TOKEN"}, {"ADMIN_TOKEN=with a space in the middle", "ADMIN_TOKEN"},
		{"ADMIN_SOCKET=relative/path", "absolute"}, {"ADMIN_SOCKET=/" + strings.Repeat("x", 107), "107"}, {"ADMIN_DEBUG=yes", "ADMIN_DEBUG"}, {"ADMIN_HOSTS=a b", "ADMIN_HOSTS"},
	} {
		if _, err := parseSettings(t, []string{c.variable}, "serve"); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.variable, err)
		}
	}
	for variable, want := range map[string]int{"ADMIN_ADDR=off": 0, "ADMIN_ADDR=127.0.0.1:80,127.0.0.1:9690": 2, "ADMIN_ADDR=localhost:0": 1, "ADMIN_HOSTS=a.internal,b": 1} {
		all, err := parseSettings(t, []string{variable}, "serve")
		if err != nil || len(all.Serve.addrs()) != want {
			t.Errorf("%s: %v", variable, err)
		}
	}
}
