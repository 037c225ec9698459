package relaytest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"testing"
	"time"
)

const (
	// startHang is for a process to appear.
	startHang = 10 * time.Second
	// stopHang is for a worker to end after SIGTERM, its drain included.
	stopHang = 30 * time.Second
)

// Worker is one started "execworker serve".
type Worker struct {
	// Dir is a directory of its own, removed at the end. HOME, TMPDIR, the admin
	// socket and the workspaces are below it.
	Dir string

	binary string
	stderr *log
	cmd    *exec.Cmd
	pid    int           // of the outermost serve
	done   chan struct{} // closed when the started process has been waited for
}

// StartWorker builds the worker if need be and starts "execworker serve" against
// r. It does not wait for the Attach; r.Attach does. The environment is env and
// what it does not name of:
//
//	PATH, HOME, TMPDIR, RELAY_ADDR, SANDBOX_ID=relaytest,
//	SANDBOX_TOKEN (unless SANDBOX_TOKEN_FILE is there),
//	ADMIN_ADDR=127.0.0.1:0, ADMIN_SOCKET, WORKSPACE_ROOT,
//	LOG_FORMAT=json, EXECWORKER_DRAIN=1s
//
// At the test's end the worker gets SIGTERM; the test fails if it does not end in
// time, or if a panic or a data race is in its log.
func StartWorker(t testing.TB, r *Relay, env Env, opts ...WorkerOption) *Worker {
	t.Helper()
	var st start
	for _, o := range opts {
		o(t, &st)
	}
	dir, err := os.MkdirTemp("", "ew-") // short: a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if st.credential != nil {
		if err := os.Chown(dir, int(st.credential.Uid), int(st.credential.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	w := &Worker{Dir: dir, binary: Binary(t), stderr: newLog(), done: make(chan struct{})}
	argv := st.argv(w.binary)
	w.cmd = exec.Command(argv[0], argv[1:]...)
	w.cmd.Dir = dir
	w.cmd.Env = env.list(r, w)
	w.cmd.Stderr = w.stderr
	if st.pty {
		w.cmd.Stdout = w.stderr                      // script puts what the terminal shows there
		if _, err := w.cmd.StdinPipe(); err != nil { // open until the end: script ends with its stdin
			t.Fatal(err)
		}
	}
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: st.credential}
	w.cmd.WaitDelay = 5 * time.Second // a survivor may hold the log open
	for _, change := range st.changes {
		change(w.cmd)
	}
	if err := w.spawn(); err != nil {
		t.Fatalf("start worker: %v", err)
	}
	t.Cleanup(func() { w.stop(t) })
	w.pid = w.cmd.Process.Pid
	if st.wrapped() {
		w.pid = w.waitServe(t, w.pid)
	}
	return w
}

// spawn starts the process and its waiter. A worker must not outlive a test
// binary that dies, and Pdeathsig is about the thread that forked: so that thread
// is kept until the end.
func (w *Worker) spawn() error {
	w.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(w.done)
		err := w.cmd.Start()
		started <- err
		if err == nil {
			_ = w.cmd.Wait() // its state is read from cmd.ProcessState
		}
	}()
	return <-started
}

// PID is the process that stands for the worker towards its starter: the guardian
// if there is one, else the daemon. It is a number in the test's PID namespace.
func (w *Worker) PID() int { return w.pid }

// DaemonPID is the process that runs the execs. Call it after the Hello.
func (w *Worker) DaemonPID(t testing.TB) int {
	t.Helper()
	ps, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	pid := w.pid
	for {
		child := ps.find(func(p process) bool { return p.ppid == pid && p.isServe() })
		if child == nil {
			return pid
		}
		pid = child.pid
	}
}

// waitServe waits for the worker to appear below a wrapper.
func (w *Worker) waitServe(t testing.TB, root int) int {
	t.Helper()
	var pid int
	err := poll(startHang, func() (bool, error) {
		select {
		case <-w.done:
			return false, fmt.Errorf("it has ended: %s", w.cmd.ProcessState)
		default:
		}
		ps, err := processes()
		if p := ps.find(func(p process) bool { return p.isServe() && ps.below(p, root) }); p != nil {
			pid = p.pid
		}
		return pid != 0, err
	})
	if err != nil {
		t.Fatalf("start worker: %v; its log:\n%s", err, w.Stderr())
	}
	return pid
}

// Signal sends sig to PID; that the worker is gone already is no error.
func (w *Worker) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	select {
	case <-w.done:
		return // the number may be another's by now
	default:
	}
	if err := syscall.Kill(w.pid, sig); err != nil && err != syscall.ESRCH {
		t.Fatalf("signal worker: %v", err)
	}
}

// Wait waits for the worker's end and returns its exit code, or minus the signal
// that ended it.
func (w *Worker) Wait(t testing.TB) int {
	t.Helper()
	select {
	case <-w.done:
	case <-time.After(stopHang):
		t.Fatalf("wait for the worker's end: still there after %s; its log:\n%s", stopHang, w.Stderr())
	}
	ws := w.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return -int(ws.Signal())
	}
	return ws.ExitStatus()
}

// Done is closed when the worker has ended.
func (w *Worker) Done() <-chan struct{} { return w.done }

// Stderr is the log so far; on a pty, all that the terminal showed.
func (w *Worker) Stderr() string { return w.stderr.String() }

// WaitLog waits until the log contains text.
func (w *Worker) WaitLog(t testing.TB, text string) {
	t.Helper()
	if !w.stderr.wait(text, hang) {
		t.Fatalf("wait for %q in the worker's log: not within %s; the log:\n%s", text, hang, w.Stderr())
	}
}

// AdminSocket is where the worker serves its admin API, unless env said otherwise.
func (w *Worker) AdminSocket() string { return filepath.Join(w.Dir, "admin.sock") }

// Workspace is the worker's WORKSPACE_ROOT, unless env said otherwise.
func (w *Worker) Workspace() string { return filepath.Join(w.Dir, "workspace") }

// broken finds what a Go program prints when it dies of itself, at the start of a
// line: a command that merely prints such words is inside a JSON string.
var broken = regexp.MustCompile(`(?m)^(panic: |fatal error: |WARNING: DATA RACE)`)

func (w *Worker) stop(t testing.TB) {
	w.Signal(t, syscall.SIGTERM)
	select {
	case <-w.done:
	case <-time.After(stopHang):
		t.Errorf("stop worker: still there %s after SIGTERM", stopHang)
		_ = syscall.Kill(w.DaemonPID(t), syscall.SIGQUIT) // prints its goroutines
		_ = poll(2*time.Second, func() (bool, error) { return w.ended(), nil })
		if !w.ended() {
			_ = syscall.Kill(w.pid, syscall.SIGKILL)
			_ = w.cmd.Process.Kill()
		}
		<-w.done
	}
	if m := broken.FindString(w.Stderr()); m != "" {
		t.Errorf("worker: %q in its log", m)
	}
	if t.Failed() {
		t.Logf("the worker's log:\n%s", w.Stderr())
	}
}

func (w *Worker) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}
