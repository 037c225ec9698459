package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
)

// answeringWorker serves what a worker never should, on a socket.
func answeringWorker(t *testing.T, answer http.HandlerFunc) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ew-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "admin.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: answer}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	return socket
}

func TestAnswerDecidesTheExitCode(t *testing.T) {
	const problemType = "application/problem+json"
	events := []string{"inflight", "--watch", "--json"}
	for _, c := range []struct {
		status         int
		kind, body     string
		args           []string
		code           int
		stdout, stderr string
	}{
		{200, "text/plain", "fine\n", []string{"status"}, exitOK, "fine", ""},
		{431, "text/plain", "too large\n", []string{"why", "1"}, exitFailed, "", "431"},
		{503, "text/plain", "later\n", []string{"inflight"}, exitFailed, "", "503"},
		{503, problemType, `{"title":"Too many are asking.","hint":"wait"}`, []string{"execs"}, exitFailed, "", "Too many"},
		{500, problemType, `{"title":`, []string{"execs"}, exitFailed, "", "unreadable"},
		{200, "text/plain", "ok\n", []string{"health"}, exitOK, "ok", ""},
		{503, "text/plain", "not ready\n", []string{"health"}, exitFailed, "not ready", ""},
		{503, problemType, `{"title":"Too many are asking."}`, []string{"health"}, exitFailed, "", "Too many"},
		{400, "text/plain", "bad\n", []string{"health"}, exitFailed, "", "400"},
		{431, "text/plain", "too large\n", events, exitFailed, "", "431"},
		{200, "application/x-ndjson", "{}\n", events, exitNoWorker, "{}", "ended the stream"},
	} {
		socket := answeringWorker(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.WriteHeader(c.status)
			io.WriteString(w, c.body)
		})
		stdout, stderr := askWorker(t, socket, c.code, c.args...)
		if !strings.Contains(stdout, c.stdout) || c.stdout == "" && stdout != "" || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%v, answered %d %s: stdout %q, stderr %q", c.args, c.status, c.kind, stdout, stderr)
		}
	}
}

// What a worker sends is made of what commands print.
func TestNoAnswerDrivesATerminal(t *testing.T) {
	const evil = "\x1b]0;owned\a\u009b2J\u202e"
	for _, c := range []struct {
		status int
		kind   string
		args   []string
	}{
		{200, "text/plain", []string{"status"}},
		{200, "application/json", []string{"status", "--json"}},
		{200, "application/x-ndjson", []string{"inflight", "--watch", "--json"}},
		{409, "application/problem+json", []string{"abort", "1"}},
	} {
		socket := answeringWorker(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.WriteHeader(c.status)
			if c.status != 200 {
				io.WriteString(w, `{"title":"\u001b]0;owned\u0007\u009b2J\u202e"}`)
				return
			}
			io.WriteString(w, evil+"\n")
		})
		shown := onTerminal(t, socket, c.args...)
		shown.wait(t, "␛]0;owned")
		if strings.ContainsAny(shown.String(), "\x1b\a\u009b\u202e") {
			t.Errorf("%v: %q", c.args, shown)
		}
	}
}

// onTerminal runs one of the commands that ask, and returns what a terminal gets.
func onTerminal(t *testing.T, socket string, args ...string) *watched {
	t.Helper()
	master, slave := newTerminal(t)
	start(t, []string{"ADMIN_SOCKET=" + socket}, func(c *exec.Cmd) { c.Stdout, c.Stderr = slave, slave }, args...)
	slave.Close()
	shown := newWatched()
	go io.Copy(shown, master) // until the cleanup of either end
	return shown
}

func TestWatchClearsATerminal(t *testing.T) {
	socket := answeringWorker(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "drawn\n") })
	onTerminal(t, socket, "inflight", "--watch").wait(t, "\x1b[H\x1b[2J")
}

// A reader that has what it wants, as head has, is no reason to go on or to
// complain.
func TestReaderThatLeavesIsAGoodEnd(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	for _, args := range [][]string{{"inflight", "--watch"}, {"inflight", "--watch", "--json"}, {"execs"}, {"execs", "--json"}} {
		socket := answeringWorker(t, func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, big+"\n")
			if strings.HasSuffix(r.URL.Path, "/events") {
				for r.Context().Err() == nil {
					io.WriteString(w, big+"\n")
				}
			}
		})
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		s := start(t, []string{"ADMIN_SOCKET=" + socket}, func(c *exec.Cmd) { c.Stdout = w }, args...)
		w.Close()
		if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		r.Close()
		s.wantCode(t, exitOK)
		wantOutput(t, "stderr", s.stderr, "")
	}
}

// A reader that takes his time, as less does, gets everything.
func TestSlowReaderGetsAll(t *testing.T) {
	big := strings.Repeat(strings.Repeat("x", 99)+"\n", 1<<14) // 1.6 MB, more than pipes and the log hold
	socket := answeringWorker(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, big) })
	for _, args := range [][]string{{"execs"}, {"execs", "--json"}} {
		r, w := unreadPipe(t)
		s := start(t, []string{"ADMIN_SOCKET=" + socket}, func(c *exec.Cmd) { c.Stdout = w }, args...)
		w.Close()
		select { // longer than the log's flushTime
		case code := <-s.code:
			t.Fatalf("%v: it ended with %d before anybody read", args, code)
		case <-time.After(2 * flushTime):
		}
		text, err := io.ReadAll(r)
		if err != nil || !strings.HasSuffix(string(text), big) {
			t.Errorf("%v: %d bytes of %d: %v", args, len(text), len(big), err)
		}
		s.wantCode(t, exitOK)
	}
}

func TestInterruptEndsAClientThatNobodyReads(t *testing.T) {
	socket := answeringWorker(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "text\n") })
	for _, c := range []struct {
		args []string
		code int
	}{{[]string{"execs"}, exitSignal}, {[]string{"inflight", "--watch"}, exitOK}, {[]string{"inflight", "--watch", "--json"}, exitOK}} {
		_, w := unreadPipe(t)
		s := start(t, []string{"ADMIN_SOCKET=" + socket}, func(cmd *exec.Cmd) { cmd.Stdout = w }, c.args...)
		w.Close()
		waitBlocked(t, s.cmd.Process.Pid)
		s.signal(t, syscall.SIGINT)
		s.wantCode(t, c.code)
	}
}

// waitBlocked waits until a thread of the process is in a write to a pipe.
func waitBlocked(t *testing.T, pid int) {
	t.Helper()
	for until := time.Now().Add(hang); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		waits, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", pid))
		for _, wait := range waits {
			if text, _ := os.ReadFile(wait); strings.Contains(string(text), "pipe_write") {
				return
			}
		}
	}
	t.Fatal("it is not blocked")
}

func TestWorkerThatDoesNotAnswerIsNone(t *testing.T) {
	t.Parallel() // it takes clientTime
	socket := answeringWorker(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if _, stderr := askWorker(t, socket, exitNoWorker, "health"); !strings.Contains(stderr, "does not answer") || !strings.Contains(stderr, socket) {
		t.Error(stderr)
	}
}

func TestLongLinesStayWhole(t *testing.T) {
	for lead := range utf8.UTFMax {
		line := strings.Repeat("a", lead) + strings.Repeat("é世🙂", 1000)
		if got := visibleLine(line); got != line {
			t.Errorf("%d bytes ahead: it is not the same", lead)
		}
	}
	if got := visibleLine(strings.Repeat("\xff", 3000)); got != strings.Repeat("<xff>", 3000) {
		t.Error("what is no UTF-8 is lost")
	}
}

func TestPlacesOfTheSocket(t *testing.T) {
	t.Setenv("TMPDIR", "/t")
	for runtime, want := range map[string]int{"": 2, "relative": 2, "/run/user/7": 3} {
		t.Setenv("XDG_RUNTIME_DIR", runtime)
		got := socketSettings{}.sockets()
		if len(got) != want || got[0] != "/run/execworker/admin.sock" || !strings.HasPrefix(got[want-1], "/t/execworker-") {
			t.Errorf("%q: %q", runtime, got)
		}
		if want == 3 && got[1] != "/run/user/7/execworker/admin.sock" {
			t.Errorf("%q: %q", runtime, got)
		}
	}
	if got := (socketSettings{AdminSocket: "/a"}).sockets(); !slices.Equal(got, []string{"/a"}) {
		t.Errorf("%q", got)
	}
}

// A worker of another user may be the one that is meant, but only the person can
// know.
func TestSocketsOfOthersAreNamedAndNotAsked(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	own := socketFolder(strconv.Itoa(os.Geteuid()))
	for _, name := range []string{own, "execworker-4242424", "execworker-7\nexecworker: all is well", "execworker-", "execworker--1"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(filepath.Join(dir, name, "admin.sock"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := filepath.Join(dir, "execworker-4242424", "admin.sock")
	if got := otherSockets(socketSettings{}.sockets()); !slices.Equal(got, []string{want}) {
		t.Errorf("%q, want %q", got, want)
	}
	if conn, err := net.Dial("unix", "/run/execworker/admin.sock"); err == nil {
		conn.Close()
		t.Skip("a worker serves on this machine, so that it would be asked")
	}
	s := start(t, []string{"ADMIN_SOCKET=", "XDG_RUNTIME_DIR="}, nil, "status")
	s.wantCode(t, exitNoWorker)
	if got := s.stderr.String(); !strings.HasSuffix(got, "\nexecworker: workers of other users may serve: "+want+"\n") {
		t.Errorf("%s", got)
	}
}
