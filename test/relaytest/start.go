package relaytest

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Env is environment variables of a worker.
type Env map[string]string

// list fills in what a worker needs and e does not name.
func (e Env) list(r *Relay, w *Worker) []string {
	all := map[string]string{
		"PATH":             os.Getenv("PATH"),
		"HOME":             w.Dir,
		"TMPDIR":           w.Dir,
		"RELAY_ADDR":       r.Addr(),
		"SANDBOX_ID":       "relaytest",
		"SANDBOX_TOKEN":    r.Token(),
		"ADMIN_ADDR":       "127.0.0.1:0",
		"ADMIN_SOCKET":     w.AdminSocket(),
		"WORKSPACE_ROOT":   w.Workspace(),
		"LOG_FORMAT":       "json",
		"EXECWORKER_DRAIN": "1s",
	}
	if raceDetector {
		all["GORACE"] = "atexit_sleep_ms=0" // by default each exit takes a second
	}
	if _, fromFile := e["SANDBOX_TOKEN_FILE"]; fromFile {
		delete(all, "SANDBOX_TOKEN")
	}
	maps.Copy(all, e)
	var list []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		list = append(list, k+"="+all[k])
	}
	return list
}

// start is how a worker is started.
type start struct {
	credential *syscall.Credential
	setup      string
	pid1, pty  bool
	changes    []func(*exec.Cmd)
}

// WorkerOption changes how a worker is started. One that the machine cannot do
// skips the test.
type WorkerOption func(testing.TB, *start)

// WithUID runs the worker as another user, without further groups. It needs root.
func WithUID(uid, gid uint32) WorkerOption {
	return func(t testing.TB, st *start) {
		t.Helper()
		if os.Getuid() != 0 {
			t.Skip("starting a worker as another user needs root")
		}
		st.credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
}

// WithSetup runs shell commands, as the worker's user, in the process that then
// becomes the worker: "ulimit -Sn 1024", "echo -500 >/proc/self/oom_score_adj".
func WithSetup(commands string) WorkerOption {
	return func(_ testing.TB, st *start) { st.setup = commands }
}

// AsPID1 makes the worker the init of a PID namespace with a /proc of its own.
func AsPID1() WorkerOption {
	return func(t testing.TB, st *start) {
		t.Helper()
		if err := exec.Command("unshare", "-pf", "--mount-proc", "--kill-child", "true").Run(); err != nil {
			t.Skipf("no PID namespace here: unshare: %v", err)
		}
		st.pid1 = true
	}
}

// OnPTY gives the worker a controlling terminal. Stderr is then what it shows.
func OnPTY() WorkerOption {
	return func(t testing.TB, st *start) {
		t.Helper()
		if _, err := exec.LookPath("script"); err != nil {
			t.Skipf("no pty here: %v", err)
		}
		st.pty = true
	}
}

// WithCmd changes the command just before it is started.
func WithCmd(change func(*exec.Cmd)) WorkerOption {
	return func(_ testing.TB, st *start) { st.changes = append(st.changes, change) }
}

// wrapped says whether the started process is not itself the worker.
func (st *start) wrapped() bool { return st.pid1 || st.pty }

func (st *start) argv(binary string) []string {
	argv := []string{binary, "serve"}
	if st.setup != "" {
		argv = append([]string{"bash", "-c", st.setup + "\nexec \"$@\"", "bash"}, argv...)
	}
	if st.pid1 {
		argv = append([]string{"unshare", "-pf", "--mount-proc", "--kill-child"}, argv...)
	}
	if st.pty {
		var quoted []string
		for _, a := range argv {
			quoted = append(quoted, "'"+strings.ReplaceAll(a, "'", `'\''`)+"'")
		}
		argv = []string{"script", "-qec", "exec " + strings.Join(quoted, " "), "/dev/null"}
	}
	return argv
}
