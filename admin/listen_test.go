package admin

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestOnlyLoopbackIsListenedOn(t *testing.T) {
	for addr, good := range map[string]bool{
		"127.0.0.1:0": true, "127.9.9.9:0": true, "localhost:0": true, "[::1]:9690": true,
		":9690": false, "0.0.0.0:9690": false, "[::]:9690": false, "192.0.2.1:9690": false, "example.com:80": false, "127.0.0.1": false,
		"127.0.0.1:": false, "127.0.0.1:http": false, "127.0.0.1:65536": false, "127.0.0.1:-1": false, "127.0.0.1:080": false, "": false, "off": false,
	} {
		if err := CheckAddr(addr); (err == nil) != good {
			t.Errorf("%q: %v", addr, err)
		}
		if !good {
			if err := serverOf(busyWorker()).Listen(nil, []string{addr}); err == nil {
				t.Errorf("%q is listened on", addr)
			}
		}
	}
}

// shortDir is a directory whose name leaves room for a socket's.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ew-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestFirstFreeAddressServes(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := serverOf(busyWorker())
	if err := s.Listen([]string{filepath.Join(shortDir(t), "s")}, []string{taken.Addr().String(), "127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	if len(s.Addrs()) != 1 || s.Addrs()[0] == taken.Addr().String() {
		t.Errorf("serves on %v", s.Addrs())
	}
	if p := s.Problems(); len(p) != 1 || !strings.Contains(p[0], "in use") {
		t.Errorf("problems %v", p)
	}
}

func TestLocalhostIsBothFamilies(t *testing.T) {
	probe, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("no ::1 here: %v", err)
	}
	_, port, _ := net.SplitHostPort(probe.Addr().String())
	probe.Close()
	s := serverOf(busyWorker())
	if err := s.Listen(nil, []string{"localhost:" + port}); err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	if len(s.Addrs()) != 2 {
		t.Errorf("serves on %v", s.Addrs())
	}
}

// What may be in the place of the socket, and what becomes of it.
func TestPlaceOfTheSocket(t *testing.T) {
	for _, c := range []struct {
		name  string
		place func(t *testing.T, path string)
		says  string // of the error; empty: it is made
	}{
		{"nothing", func(*testing.T, string) {}, ""},
		{"no directory", func(t *testing.T, path string) { os.Remove(filepath.Dir(path)) }, ""},
		{"a socket that nobody serves", func(t *testing.T, path string) {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
			if err != nil {
				t.Fatal(err)
			}
			l.SetUnlinkOnClose(false)
			l.Close()
		}, ""},
		{"a socket that is served", func(t *testing.T, path string) {
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}, "another worker"},
		{"a file", func(t *testing.T, path string) { os.WriteFile(path, nil, 0o600) }, "no socket"},
		{"a link", func(t *testing.T, path string) { os.Symlink("/nowhere", path) }, "no socket"},
		{"a directory", func(t *testing.T, path string) { os.Mkdir(path, 0o700) }, "no socket"},
		{"a directory that everybody may write to", func(t *testing.T, path string) { os.Chmod(filepath.Dir(path), 0o777) }, "written to by others"},
		{"a directory of another user", func(t *testing.T, path string) {
			if err := os.Chown(filepath.Dir(path), 4711, 4711); err != nil {
				t.Skipf("needs root: %v", err)
			}
		}, "belongs to user 4711"},
		{"a socket of another user", func(t *testing.T, path string) {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
			if err != nil {
				t.Fatal(err)
			}
			l.SetUnlinkOnClose(false)
			l.Close()
			if err := os.Chown(path, 4711, 4711); err != nil {
				t.Skipf("needs root: %v", err)
			}
		}, "belongs to user 4711"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(shortDir(t), "d", "admin.sock")
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			c.place(t, path)
			before, _ := os.Lstat(path)
			s := serverOf(busyWorker())
			err := s.Listen([]string{path}, nil)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("error %v", err)
				}
				if after, _ := os.Lstat(path); before != nil && !os.SameFile(before, after) {
					t.Error("what was there is gone")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			file, err := os.Lstat(path)
			if err != nil || file.Mode().Perm() != 0o600 {
				t.Errorf("the socket has mode %v, %v", file.Mode(), err)
			}
			if dir, err := os.Stat(filepath.Dir(path)); err != nil || dir.Mode().Perm() != 0o700 {
				t.Errorf("the directory has mode %v, %v", dir.Mode(), err)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Errorf("close: %v", err)
			}
			if _, err := os.Lstat(path); err == nil {
				t.Error("the socket outlived the server")
			}
		})
	}
}

func TestSocketOfAnotherIsNotRemoved(t *testing.T) {
	path := filepath.Join(shortDir(t), "admin.sock")
	s := serverOf(busyWorker())
	if err := s.Listen([]string{path}, nil); err != nil {
		t.Fatal(err)
	}
	os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the other's socket is gone: %v", err)
	}
}

func TestSocketPathThatIsTooLong(t *testing.T) {
	err := serverOf(busyWorker()).Listen([]string{"/tmp/" + strings.Repeat("x", 103)}, nil)
	if err == nil || !strings.Contains(err.Error(), "107") {
		t.Errorf("error %v", err)
	}
}

// Of two that start at once one gets the socket, and it is the one that is there.
func TestTwoAtOnceGetOneSocket(t *testing.T) {
	path := filepath.Join(shortDir(t), "admin.sock")
	for range 20 {
		servers := []*Server{serverOf(busyWorker()), serverOf(busyWorker())}
		errs := make([]error, len(servers))
		var wg sync.WaitGroup
		for i, s := range servers {
			wg.Go(func() { errs[i] = s.Listen([]string{path}, nil) })
		}
		wg.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("errors %v", errs)
		}
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		for _, s := range servers {
			s.Close(t.Context())
		}
	}
}

// Headers that never end cost their sender the connection and nobody else anything.
func TestSlowHeadersAreCut(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the header time")
	}
	s := serve(t, everybody(ours))
	c, err := net.Dial("tcp", s.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET /admin/status HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	c.SetReadDeadline(time.Now().Add(headerTime + 10*time.Second))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection is not closed: %v", err)
	}
}

// A door that is full leaves the other one free.
func TestCrowdAtOneDoorLeavesTheOther(t *testing.T) {
	s := serve(t, everybody(ours))
	for range connectionsMost {
		c, err := net.Dial("tcp", s.Addrs()[0])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	tcp := s.doors[1]
	for deadline := time.Now().Add(5 * time.Second); tcp.open.Load() < connectionsMost && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	c, err := net.Dial("tcp", s.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(headerTime / 2)) // later it would be closed for its silence
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one too many is not closed: %v", err)
	}
	if code, text, _ := s.ask("unix", "GET", "/admin/status", ""); code != 200 {
		t.Errorf("the socket: %d %s", code, text)
	}
}

func TestDoorDoesNotFillUp(t *testing.T) {
	s := serve(t, everybody(ours))
	for range connectionsMost + 10 {
		if code, text, _ := s.ask("tcp", "GET", "/livez", ""); code != 200 {
			t.Fatalf("%d %s", code, text)
		}
	}
}

func TestOpenStreamDoesNotHoldTheCloseUp(t *testing.T) {
	s := serverOf(busyWorker(), func(o *Options) { o.Processes = everybody(ours) })
	if err := s.Listen(nil, []string{"127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve() }()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Get("http://" + s.Addrs()[0] + "/admin/events")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, `"type":"snapshot"`) {
		t.Fatalf("%q, %v", line, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := errors.Join(s.Close(ctx), <-ended); err != nil {
		t.Errorf("close: %v", err)
	}
	rest, _ := io.ReadAll(lines)
	if !strings.Contains(string(rest), "the server closes this stream") {
		t.Errorf("the stream ended with %q", rest)
	}
}
