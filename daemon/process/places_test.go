package process

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const envMountProc = "PROCESS_TEST_MOUNT_PROC"

// mountProc gives a new PID and mount namespace its own /proc.
func mountProc() error {
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return unix.Mount("proc", "/proc", "proc", 0, "")
}

// needPrivilege skips a shape that this user or system may not make.
func needPrivilege(t *testing.T, shape string) {
	switch shape {
	case "namespace", "join":
		if os.Getuid() != 0 {
			t.Skip("a PID namespace of its own wants CAP_SYS_ADMIN")
		}
	case "otheruser":
		if os.Getuid() != 0 {
			t.Skip("only root becomes another user")
		}
	case "usernamespace":
		if b, err := os.ReadFile("/proc/sys/user/max_user_namespaces"); err != nil || strings.TrimSpace(string(b)) == "0" {
			t.Skip("there are no user namespaces")
		}
		if b, err := os.ReadFile("/proc/sys/kernel/unprivileged_userns_clone"); err == nil && os.Getuid() != 0 && strings.TrimSpace(string(b)) == "0" {
			t.Skip("user namespaces are for root")
		}
	}
}

// copyOfTests puts the test binary where every user may run it.
func copyOfTests(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "process-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	path := filepath.Join(dir, "process.test")
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// runTests runs tests of this package in another place. There is no owner in
// this process meanwhile: it would take the place for a rogue.
func runTests(t *testing.T, pattern string, attr *syscall.SysProcAttr, env ...string) {
	t.Helper()
	if inUse.Load() {
		t.Fatal("an owner is left from another test")
	}
	args := []string{"-test.run=" + pattern, "-test.timeout=5m"}
	if testing.Verbose() {
		args = append(args, "-test.v")
	}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	cmd := exec.Command(copyOfTests(t), args...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		t.Log(strings.TrimRight(line, "\n"))
	}
	if err != nil {
		t.Error(err)
	}
}

// 8.6.
func TestPlaceUnprivileged(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("unprivileged already")
	}
	runTests(t, "^Test(Tree|Rogue|Spawn|Tags|Proof|Foreign|Fence|Inspect|Origin|Holders)", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
}

// 8.17.
func TestPlaceSmallLimit(t *testing.T) {
	path := copyOfTests(t)
	cmd := exec.Command("/bin/bash", "-c", `ulimit -S -n 300 && exec "$0" -test.run=^TestInLimit -test.v`, path)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "PROCESS_TEST_LIMIT=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v: %s", err, out)
	}
}

// 8.6.
func TestPlacePID1(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a PID namespace wants CAP_SYS_ADMIN")
	}
	runTests(t, "^Test(Tree|Rogue|Foreign|Fence|Proof|Inspect|Origin|Holders|InPID1)", &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}, envMountProc+"=1")
}
