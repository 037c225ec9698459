package admin

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A command may hold the lock of the directory: it must not keep the worker from
// starting.
func TestLockOfAnotherEndsTheWait(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	s := serverOf(busyWorker())
	go func() { ended <- s.Listen([]string{filepath.Join(dir, "s")}, nil) }()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "lock") {
			t.Errorf("error %v", err)
		}
	case <-time.After(lockTime + 10*time.Second):
		f.Close()
		<-ended
		t.Error("it waits for ever")
	}
}

// A link can be led to another directory at any time by its owner.
func TestLinkOfAnotherUserIsNoPlace(t *testing.T) {
	base := shortDir(t)
	real, link := filepath.Join(base, "real"), filepath.Join(base, "link")
	if err := os.Mkdir(real, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	if err := ownDirectory(link); err != nil {
		t.Errorf("a link of our own: %v", err)
	}
	if err := os.Lchown(link, 4711, 4711); err != nil {
		t.Skipf("needs root: %v", err)
	}
	if err := ownDirectory(link); err == nil || !strings.Contains(err.Error(), "link of user 4711") {
		t.Errorf("error %v", err)
	}
}

// A file system may give the number of an inode to the next file.
func TestSocketWithAnOldNumberIsNotRemoved(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	s := serverOf(busyWorker())
	if err := s.Listen([]string{path}, nil); err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(time.Minute)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("it is gone: %v", err)
	}
}

func TestLocalhostIsOnePort(t *testing.T) {
	probe, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("no ::1 here: %v", err)
	}
	probe.Close()
	s := serverOf(busyWorker())
	if err := s.Listen(nil, []string{"localhost:0"}); err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	addrs := s.Addrs()
	if len(addrs) != 2 || strings.TrimPrefix(addrs[0], "127.0.0.1:") != strings.TrimPrefix(addrs[1], "[::1]:") {
		t.Errorf("serves on %v", addrs)
	}
}

// Clients try ::1 first: who has it may be waiting for a token.
func TestTakenHalfOfLocalhostIsAProblem(t *testing.T) {
	taken, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("no ::1 here: %v", err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	s := serverOf(busyWorker())
	if err := s.Listen(nil, []string{"localhost:" + port}); err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	if got := s.Addrs(); len(got) != 1 {
		t.Errorf("serves on %v", got)
	}
	if p := s.Problems(); len(p) != 1 || !strings.Contains(p[0], "[::1]:"+port) {
		t.Errorf("problems %v", p)
	}
}
