package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestExitCodes(t *testing.T) {
	tests := []struct {
		variables []string
		args      string
		code      int
		stderr    string
	}{
		{nil, "", exitUsage, "Usage:"},
		{nil, "--help", exitOK, ""},
		{nil, "--version", exitOK, ""},
		{nil, "serve --help", exitOK, ""},
		{nil, "nonsense", exitUsage, "nonsense"},
		{nil, "serve --nonsense", exitUsage, "nonsense"},
		{nil, "exec", exitUsage, "command"},
		{[]string{"RELAY_TLS=maybe"}, "serve", exitUsage, "RELAY_TLS"},
		{[]string{"SANDBOX_TOKEN=hunter2\nx"}, "serve", exitUsage, "SANDBOX_TOKEN"},
		{[]string{"RELAY_LISTEN=127.0.0.1:nine"}, "relay", exitUsage, "RELAY_LISTEN"},
		{[]string{"RELAY_LISTEN=203.0.113.1:1", "SANDBOX_TOKEN=t"}, "relay", exitFailed, "listen"},
		{[]string{"RELAY_ADDR=127.0.0.1:1"}, "exec true", exitNotRun, "127.0.0.1:1"},
	}
	for _, tt := range tests {
		s := start(t, tt.variables, nil, strings.Fields(tt.args)...)
		s.wantCode(t, tt.code)
		if !strings.Contains(s.stderr.String(), tt.stderr) || strings.Contains(s.stderr.String(), "hunter2") {
			t.Errorf("%s: stderr %q, want it to name %q and no token", tt.args, s.stderr, tt.stderr)
		}
		if tt.code == exitOK && s.stdout.String() == "" {
			t.Errorf("%s: nothing on stdout", tt.args)
		}
	}
}

func TestExec(t *testing.T) {
	l := startLink(t)
	tests := []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"--", "echo hi; echo oops >&2; exit 7"}, 7, "hi\n", "oops\n"},
		{[]string{"--buffered", "--", "echo hi; exit 255"}, 255, "hi\n", ""},
		{[]string{"--", "echo", "a", "b", "|", "cat"}, 0, "a b\n", ""},
		{[]string{"--", "cat; echo eof"}, 0, "eof\n", ""},
		{[]string{"--workspace-key", "k", "--", "basename $PWD"}, 0, "k\n", ""},
		{[]string{"--timeout", "1s", "--", "echo hi; sleep 300"}, exitTimeout, "hi\n", "execworker: timeout:1\n"},
		{[]string{"--workspace-key", "../k", "--", "pwd"}, exitNotRun, "", "workspace_key"},
		{[]string{"--", "kill -9 $$"}, exitSignal, "", "signal"},
		{[]string{"--sandbox-id", "other", "--", "true"}, exitNotRun, "", `"other"`},
		{[]string{"--", "env | grep -c -e SANDBOX_ -e RELAY_ -e WORKSPACE_ -e EXECWORKER; true"}, 0, "0\n", ""},
	}
	for _, tt := range tests {
		s := l.exec(t, tt.args...)
		s.wantCode(t, tt.code)
		wantOutput(t, "stdout", s.stdout, tt.stdout)
		if tt.stderr == "" || tt.code < exitTimeout || tt.code == 255 {
			wantOutput(t, "stderr", s.stderr, tt.stderr)
		} else if !strings.Contains(s.stderr.String(), tt.stderr) {
			t.Errorf("%v: stderr %q, want it to name %q", tt.args, s.stderr, tt.stderr)
		}
	}
}

func TestExecSendsStdin(t *testing.T) {
	l := startLink(t)
	s := start(t, l.variables, func(c *exec.Cmd) { c.Stdin = strings.NewReader("a\x00\xff\n") }, "exec", "--stdin", "--", "cat")
	s.wantCode(t, 0)
	wantOutput(t, "stdout", s.stdout, "a\x00\xff\n")
}

func TestInterruptAbortsExec(t *testing.T) {
	l, name := startLink(t), processName("TestInterruptAbortsExec")
	s := l.exec(t, "--", "exec -a "+name+" bash -c 'echo ready; while :; do sleep 300; done' "+name)
	s.stdout.wait(t, "ready")
	s.signal(t, syscall.SIGINT)
	s.wantCode(t, exitSignal)
	if err := nothingLeft(name); err != nil {
		t.Error(err)
	}
	wantOutput(t, "stderr", s.stderr, "")
}

// A worker that does not answer holds an aborted exec for ever; the second
// signal does not wait for it.
func TestSecondInterruptLeavesExec(t *testing.T) {
	l := startLink(t)
	s := l.exec(t, "--", "echo ready; sleep 300")
	s.stdout.wait(t, "ready")
	l.worker.signal(t, syscall.SIGSTOP)
	s.signal(t, syscall.SIGINT)
	s.signal(t, syscall.SIGTERM)
	s.wantCode(t, exitSignal)
	l.worker.signal(t, syscall.SIGCONT)
	l.worker.signal(t, syscall.SIGTERM)
	l.worker.wantCode(t, exitOK)
}

func TestInterruptEndsReadOfStdin(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s := start(t, nil, func(c *exec.Cmd) { c.Stdin = r }, "exec", "--stdin", "--", "cat")
	r.Close()
	// It has read the first bytes when there is room for as many again.
	if _, err := w.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	s.signal(t, syscall.SIGINT)
	s.wantCode(t, exitSignal)
}

// As in "execworker exec -- yes | head -1".
func TestExecWithoutReaderIsAborted(t *testing.T) {
	l, name := startLink(t), processName("TestExecWithoutReader")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, l.variables, func(c *exec.Cmd) { c.Stdout = w }, "exec", "--", "exec -a "+name+" yes")
	w.Close()
	if _, err := io.ReadFull(r, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	r.Close()
	s.wantCode(t, exitSignal)
	if err := nothingLeft(name); err != nil {
		t.Error(err)
	}
}

func TestServeDrains(t *testing.T) {
	l := startLink(t)
	gate := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	s := l.exec(t, "--", "echo ready; read x < "+gate+"; echo done")
	s.stdout.wait(t, "ready")
	l.worker.signal(t, syscall.SIGTERM)
	l.worker.stderr.wait(t, "drain began")
	if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	s.wantCode(t, 0)
	wantOutput(t, "stdout", s.stdout, "ready\ndone\n")
	l.worker.wantCode(t, exitOK)
	l.relay.signal(t, syscall.SIGTERM)
	l.relay.wantCode(t, exitOK)
}

func TestSecondSignalEndsServe(t *testing.T) {
	l, name := startLink(t, "EXECWORKER_DRAIN=10m"), processName("TestSecondSignal")
	s := l.exec(t, "--", "trap '' TERM; echo ready; exec -a "+name+" sleep 300")
	s.stdout.wait(t, "ready")
	l.worker.signal(t, syscall.SIGTERM)
	l.worker.stderr.wait(t, "drain began")
	l.worker.signal(t, syscall.SIGINT)
	l.worker.wantCode(t, exitSignal)
	if err := nothingLeft(name); err != nil {
		t.Error(err)
	}
}

func TestServeStopsWithoutRelay(t *testing.T) {
	s := start(t, []string{"RELAY_ADDR=127.0.0.1:1"}, nil, "serve")
	s.stderr.wait(t, "worker started")
	s.signal(t, syscall.SIGTERM)
	s.wantCode(t, exitOK)
}

// A log that nobody reads any more, and one that nobody reads but could.
func TestServeOutlivesItsLog(t *testing.T) {
	for _, closed := range []bool{true, false} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		l := startLink(t)
		worker := start(t, append(l.variables, "SANDBOX_ID=second", "LOG_LEVEL=debug"), func(c *exec.Cmd) { c.Stderr = w }, "serve")
		w.Close()
		l.relay.stdout.wait(t, "second attached")
		if closed {
			r.Close()
		}
		for range 3 {
			s := l.exec(t, "--sandbox-id=second", "--", "echo alive")
			s.wantCode(t, 0)
			wantOutput(t, "stdout", s.stdout, "alive\n")
		}
		worker.signal(t, syscall.SIGTERM)
		worker.wantCode(t, exitOK)
	}
}

func TestServeWarns(t *testing.T) {
	s := start(t, []string{"RELAY_ADDR=192.0.2.1:8443"}, nil, "serve")
	s.stderr.wait(t, "unencrypted")
	s.stderr.wait(t, "default one")
	s.signal(t, syscall.SIGTERM)
	s.wantCode(t, exitOK)
}
