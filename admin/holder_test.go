package admin

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"execworker/daemon/observe"
)

// waitDenied waits for the next report of a refused command.
func (s served) waitDenied() observe.AdminDenied {
	s.t.Helper()
	select {
	case d := <-s.denied:
		return d
	case <-time.After(10 * time.Second):
		s.t.Fatal("nothing was refused")
		return observe.AdminDenied{}
	}
}

// A command that has the token could send its wish and be gone before it is
// looked at.
func TestSomebodyGoneWithTheTokenIsNoOperator(t *testing.T) {
	s := serverOf(busyWorker(), func(o *Options) {
		o.Token = testToken
		o.Processes = &fakeProcesses{holders: func(uint64) ([]observe.Origin, bool) { return nil, false }}
	})
	defer s.Close(t.Context())
	client, server := connected(t, "tcp4", "127.0.0.1:0", "127.0.0.1")
	ask := func() class {
		r := httptest.NewRequest("POST", "/admin/drain", nil)
		r.Header.Set("Authorization", "Bearer "+testToken)
		who, no := s.ask(r, &connection{Conn: server, door: newDoor(nil, "tcp"), at: time.Now()})
		if no != nil {
			t.Fatalf("%+v", no)
		}
		return who.class
	}
	if got := ask(); got != operator {
		t.Errorf("while it is there: %s", got)
	}
	client.Close()
	if got := ask(); got != descendant {
		t.Errorf("when it has gone: %s", got)
	}
}

// Once a connection is reset, its address can be that of another process.
func TestConnectionResetDuringTheLookIsNobodys(t *testing.T) {
	var client net.Conn
	made := make(chan struct{})
	processes := &fakeProcesses{holders: func(uint64) ([]observe.Origin, bool) {
		<-made
		client.(*net.TCPConn).SetLinger(0)
		client.Close()
		return []observe.Origin{ours}, false
	}}
	s := serve(t, processes)
	client = s.say("POST /admin/drain HTTP/1.1\r\nHost: localhost\r\n\r\n")
	close(made)
	if d := s.waitDenied(); d.Path != "/admin/drain" {
		t.Errorf("%+v", d)
	}
}

// A client that has said all, but still reads, is there.
func TestHalfClosedConnectionIsItsOwners(t *testing.T) {
	s := serve(t, everybody(ours))
	c := s.say("GET /admin/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if answer := wantAnswer(t, c, 10*time.Second); answer.StatusCode != 200 {
		t.Errorf("%d", answer.StatusCode)
	}
}

// holdersIn looks for a socket in the files of one process, as the kernel shows
// them, and calls that a command.
func holdersIn(pid func() int) *fakeProcesses {
	return &fakeProcesses{
		origin: func(int) observe.Origin { return ours },
		holders: func(inode uint64) ([]observe.Origin, bool) {
			want := "socket:[" + strconv.FormatUint(inode, 10) + "]"
			links, _ := filepath.Glob("/proc/" + strconv.Itoa(pid()) + "/fd/*")
			for _, link := range links {
				if is, _ := os.Readlink(link); is == want {
					return []observe.Origin{ours, inside}, false
				}
			}
			return []observe.Origin{ours}, false
		},
	}
}

// The connection of an operator is its own until a command has inherited it.
func TestInheritedConnectionIsTheCommands(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			pid := os.Getppid() // has none of our sockets
			s := serve(t, holdersIn(func() int { return pid }))
			address := s.Socket()
			if network == "tcp" {
				address = s.Addrs()[0]
			}
			c, err := net.Dial(network, address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if network == "unix" {
				if _, err := inodeBehind(c); err != nil {
					t.Skipf("no unix_diag here: %v", err)
				}
			}
			const request = "GET /admin/status?format=json HTTP/1.1\r\nHost: localhost\r\n\r\n"
			io.WriteString(c, request)
			answer := wantAnswer(t, c, 10*time.Second)
			io.Copy(io.Discard, answer.Body)
			if answer.StatusCode != 200 {
				t.Fatalf("before: %d", answer.StatusCode)
			}
			file, err := c.(interface{ File() (*os.File, error) }).File()
			if err != nil {
				t.Fatal(err)
			}
			child := exec.CommandContext(context.Background(), "cat")
			stdin, err := child.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			child.ExtraFiles = []*os.File{file}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			defer child.Wait()
			defer stdin.Close()
			syscall.SetNonblock(int(file.Fd()), true) // Start has made both block, for ever
			file.Close()
			pid = child.Process.Pid
			io.WriteString(c, request)
			if answer := wantAnswer(t, c, 10*time.Second); answer.StatusCode != 403 {
				t.Errorf("after: %d", answer.StatusCode)
			}
			wantEnd(t, c, 10*time.Second)
		})
	}
}

func TestInodeBehindASocketIsItsPeers(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	got, err := inodeBehind(server)
	if err != nil {
		t.Skipf("no unix_diag here: %v", err)
	}
	if want := inodeOf(t, client.(*net.UnixConn)); got != want {
		t.Errorf("inode %d, want %d", got, want)
	}
	client.Close()
	if got, err := inodeBehind(server); got != 0 || err != nil {
		t.Errorf("after its end: %d, %v", got, err)
	}
}

// What cannot be found out is not held against the maker of a connection.
func TestRootsClosedFilesAreNoVerdict(t *testing.T) {
	s := serve(t, &fakeProcesses{
		origin:  func(int) observe.Origin { return ours },
		holders: func(uint64) ([]observe.Origin, bool) { return nil, true },
	})
	if code, text, _ := s.ask("unix", http.MethodGet, "/admin/flags", ""); code != 200 {
		t.Errorf("%d %s", code, text)
	}
}

func TestAnswersOfTheKernelAreRead(t *testing.T) {
	header := strings.Repeat("\x00", unixDiagMessage)
	for name, c := range map[string]struct {
		answer string
		want   uint64
		bad    bool
	}{
		"nothing":               {"", 0, true},
		"no attributes":         {header, 0, false},
		"a peer":                {header + "\x08\x00\x02\x00\x01\x02\x00\x00", 0x201, false},
		"a peer behind another": {header + "\x05\x00\x06\x00\x07\x00\x00\x00" + "\x08\x00\x02\x00\x09\x00\x00\x00", 9, false},
		"no length":             {header + "\x00\x00\x02\x00\x01\x02\x00\x00", 0, true},
		"too long":              {header + "\x10\x00\x02\x00\x01\x02\x00\x00", 0, true},
		"the last unpadded":     {header + "\x05\x00\x06\x00\x07", 0, false},
	} {
		got, err := peerIn([]byte(c.answer))
		if got != c.want || (err != nil) != c.bad {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
}
