package contract

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"execworker/test/relaytest"
)

func TestTakenPortDoesNotStopTheWorker(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, s, w := attach(t, relaytest.Env{"ADMIN_ADDR": l.Addr().String()})
	w.WaitLog(t, "admin address not bound")
	if got := overSocket(w).ask(t, "GET", "/readyz?verbose", ""); got.code != 200 || !strings.Contains(got.body, "could not be bound") {
		t.Errorf("readyz: %d %s", got.code, got.body)
	}
	alive(t, s)
}

func TestAdminAddrOffLeavesTheSocketAlone(t *testing.T) {
	_, s, w := attach(t, relaytest.Env{"ADMIN_ADDR": "off"})
	var status struct {
		Admin struct{ Addrs, Problems []string }
	}
	overSocket(w).get(t, "/admin/status?format=json", &status)
	if len(status.Admin.Addrs) > 0 || len(status.Admin.Problems) > 0 {
		t.Errorf("%+v", status)
	}
	if found := listeners(t, w.DaemonPID(t)); len(found) > 0 {
		t.Errorf("the worker listens: %q", found)
	}
	alive(t, s)
	_, _, other := attach(t, nil)
	if found := listeners(t, other.DaemonPID(t)); len(found) != 1 {
		t.Errorf("what looks for listeners finds %q of a worker that has one", found)
	}
}

// listeners are the TCP sockets on which a process listens, as the kernel has them.
func listeners(t *testing.T, pid int) (found []string) {
	t.Helper()
	held := make(map[string]bool)
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(fds) == 0 {
		t.Fatalf("no descriptors of %d: %v", pid, err)
	}
	for _, fd := range fds {
		to, _ := os.Readlink(fd) // one that was closed since is none
		held[to] = true
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table) // there may be no IPv6
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == "0A" && held["socket:["+f[9]+"]"] {
				found = append(found, f[1])
			}
		}
	}
	return found
}

// A mistake that could open the API to others, or shut it for good, is no start.
func TestAdminSettingsThatAreRefused(t *testing.T) {
	for variable, says := range map[string]string{
		"ADMIN_ADDR=0.0.0.0:9690":                   "use 127.0.0.1",
		"ADMIN_ADDR=:9690":                          "use 127.0.0.1",
		"ADMIN_ADDR=127.0.0.1:0,192.0.2.1:9690":     "use 127.0.0.1",
		"ADMIN_ADDR=example.com:9690":               "use 127.0.0.1",
		"ADMIN_SOCKET=/" + strings.Repeat("x", 107): "at most 107",
		"ADMIN_TOKEN=hunter2":                       "at least 16",
	} {
		name, value, _ := strings.Cut(variable, "=")
		w := relaytest.StartWorker(t, relaytest.New(t), relaytest.Env{name: value})
		if code := w.Wait(t); code != 2 || !strings.Contains(w.Stderr(), name) || !strings.Contains(w.Stderr(), says) || strings.Contains(w.Stderr(), "hunter2") {
			t.Errorf("%s: exit code %d, %s", variable, code, w.Stderr())
		}
	}
}

// A worker that was killed could not take its socket away.
func TestStaleSocketIsReplaced(t *testing.T) {
	_, _, first := attach(t, nil)
	first.Signal(t, syscall.SIGKILL)
	first.Wait(t)
	if _, err := os.Lstat(first.AdminSocket()); err != nil {
		t.Fatalf("the socket is not stale: %v", err)
	}
	attach(t, relaytest.Env{"ADMIN_SOCKET": first.AdminSocket()})
	if got := overSocket(first).ask(t, "GET", "/readyz", ""); got.code != 200 {
		t.Errorf("readyz: %d %s", got.code, got.body)
	}
}

// Whoever takes the socket of another worker hides that one.
func TestLiveSocketIsRefused(t *testing.T) {
	_, s, first := attach(t, nil)
	second := relaytest.StartWorker(t, relaytest.New(t), relaytest.Env{"ADMIN_SOCKET": first.AdminSocket()})
	if code := second.Wait(t); code != 1 || !strings.Contains(second.Stderr(), "another worker serves there") {
		t.Errorf("exit code %d, %s", code, second.Stderr())
	}
	if got := overSocket(first).ask(t, "GET", "/readyz", ""); got.code != 200 {
		t.Errorf("readyz of the first: %d %s", got.code, got.body)
	}
	alive(t, s)
}

// What is no socket may be somebody's file.
func TestFileInPlaceOfTheSocketStays(t *testing.T) {
	dir, err := os.MkdirTemp("", "ew-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "admin.sock")
	if err := os.WriteFile(path, []byte("notes"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := relaytest.StartWorker(t, relaytest.New(t), relaytest.Env{"ADMIN_SOCKET": path})
	if code := w.Wait(t); code != 1 || !strings.Contains(w.Stderr(), "is no socket") {
		t.Errorf("exit code %d, %s", code, w.Stderr())
	}
	if text, err := os.ReadFile(path); string(text) != "notes" {
		t.Errorf("the file has %q: %v", text, err)
	}
}
