package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// beMain makes this test binary the program itself.
const beMain = "EXECWORKER_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(beMain) != "" {
		main()
	}
	os.Exit(m.Run())
}

// hang is how long anything may take before a test gives it up.
const hang = 20 * time.Second

// started is a running execworker.
type started struct {
	cmd    *exec.Cmd
	stdout *watched
	stderr *watched
	code   chan int
}

// watched is output that a test can wait for.
type watched struct {
	mu    sync.Mutex
	text  strings.Builder
	grown chan struct{} // closed and replaced at each growth
}

func newWatched() *watched { return &watched{grown: make(chan struct{})} }

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	close(w.grown)
	w.grown = make(chan struct{})
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func (w *watched) wait(t *testing.T, want string) {
	t.Helper()
	deadline := time.After(hang)
	for {
		w.mu.Lock()
		text, grown := w.text.String(), w.grown
		w.mu.Unlock()
		if strings.Contains(text, want) {
			return
		}
		select {
		case <-grown:
		case <-deadline:
			t.Fatalf("no %q in:\n%s", want, text)
		}
	}
}

// start starts execworker with the variables and none other of its own. setup
// may change the command first.
func start(t *testing.T, variables []string, setup func(*exec.Cmd), args ...string) *started {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &started{cmd: exec.Command(self, args...), stdout: newWatched(), stderr: newWatched(), code: make(chan int, 1)}
	socket, err := os.MkdirTemp("", "ew-") // short: a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(socket) })
	s.cmd.Env = append(childEnviron(os.Environ()), beMain+"=1", "WORKSPACE_ROOT="+t.TempDir(),
		"ADMIN_ADDR=127.0.0.1:0", "ADMIN_SOCKET="+filepath.Join(socket, "admin.sock"))
	s.cmd.Env = append(s.cmd.Env, variables...)
	s.cmd.Stdout, s.cmd.Stderr = s.stdout, s.stderr
	if setup != nil {
		setup(s.cmd)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.cmd.Wait()
		s.code <- s.cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		s.cmd.Process.Kill() // an error says that it has ended
		<-ended
	})
	return s
}

func (s *started) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

func (s *started) wantCode(t *testing.T, want int) {
	t.Helper()
	select {
	case got := <-s.code:
		if got != want {
			t.Errorf("%v: exit code %d, want %d; stderr:\n%s", s.cmd.Args[1:], got, want, s.stderr)
		}
	case <-time.After(hang):
		t.Fatalf("%v: does not end; stderr:\n%s", s.cmd.Args[1:], s.stderr)
	}
}

// link is a relay with a worker.
type link struct {
	relay, worker *started
	variables     []string // for exec
}

func startLink(t *testing.T, workerVariables ...string) *link {
	t.Helper()
	relay := start(t, []string{"SANDBOX_TOKEN=t", "RELAY_LISTEN=127.0.0.1:0"}, nil, "relay")
	var addr string
	relay.stdout.wait(t, "\n")
	if _, err := fmt.Sscanf(relay.stdout.String(), "relay on %s", &addr); err != nil {
		t.Fatalf("%v: %q", err, relay.stdout)
	}
	l := &link{relay: relay, variables: []string{"RELAY_ADDR=" + strings.TrimSuffix(addr, ":"), "SANDBOX_TOKEN=t"}}
	l.worker = start(t, append(l.variables, workerVariables...), nil, "serve")
	relay.stdout.wait(t, "attached")
	return l
}

// exec starts a command on the link.
func (l *link) exec(t *testing.T, args ...string) *started {
	t.Helper()
	return start(t, l.variables, nil, append([]string{"exec"}, args...)...)
}

// processName is a name that no other run of these tests looks for: the tree may
// be tested twice at the same time, and a run that was killed leaves processes.
func processName(name string) string { return fmt.Sprintf("%s-%d", name, os.Getpid()) }

func wantOutput(t *testing.T, what string, w *watched, want string) {
	t.Helper()
	if got := w.String(); got != want {
		t.Errorf("%s is %q, want %q", what, got, want)
	}
}
