package admin

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"execworker/daemon/observe"
)

// inodeOf is what /proc says of a socket of ours.
func inodeOf(t *testing.T, c syscall.Conn) uint64 {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var inode uint64
	raw.Control(func(fd uintptr) {
		link, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(fd)))
		if err != nil {
			t.Error(err)
		}
		inode, _ = strconv.ParseUint(strings.Trim(link, "socket:[]"), 10, 64)
	})
	return inode
}

// connected is a connection to a listener on addr: the far end's and ours.
func connected(t *testing.T, network, listen, dial string) (client, server *net.TCPConn) {
	t.Helper()
	l, err := net.Listen(network, listen)
	if err != nil {
		t.Skipf("no %s here: %v", listen, err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	c, err := net.Dial("tcp", net.JoinHostPort(dial, port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	a, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return c.(*net.TCPConn), a.(*net.TCPConn)
}

func TestSocketAtTheOtherEndIsFound(t *testing.T) {
	for _, c := range []struct{ name, network, listen, dial string }{
		{"IPv4", "tcp4", "127.0.0.1:0", "127.0.0.1"},
		{"IPv6", "tcp6", "[::1]:0", "::1"},
		{"IPv4 in IPv6", "tcp", "[::]:0", "127.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, server := connected(t, c.network, c.listen, c.dial)
			want := inodeOf(t, client)
			local, remote := addrPort(server.RemoteAddr()), addrPort(server.LocalAddr())
			if got, err := diagInode(local, remote); err != nil || got != want {
				t.Errorf("sock_diag: %d, %v, want %d", got, err, want)
			}
			table := "/proc/net/tcp"
			if c.name == "IPv6" {
				table = "/proc/net/tcp6"
			}
			if got, err := tableInode(table, local, remote); err != nil || got != want {
				t.Errorf("%s: %d, %v, want %d", table, got, err, want)
			}
			client.Close()
			if got, _ := diagInode(local, remote); got == want {
				t.Error("a socket that is closed is found")
			}
		})
	}
}

// connectedChild is a process of its own that has connected over a unix socket,
// and is gone after end; what it has made stays open.
func connectedChild(t *testing.T) (pid int, c net.Conn, end func()) {
	t.Helper()
	path := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	child := exec.Command(os.Args[0], "-test.run=^TestConnectForAnother$")
	child.Env = append(os.Environ(), "EXECWORKER_TEST_CONNECT="+path)
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if c, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	end = sync.OnceFunc(func() { stdin.Close(); child.Wait() })
	t.Cleanup(end)
	return child.Process.Pid, c, end
}

func TestPeerOfTheSocketIsWhoConnected(t *testing.T) {
	pid, c, end := connectedChild(t)
	peer, err := peerOf(c)
	defer peer.close()
	if err != nil || peer.pid != pid || peer.uid != os.Geteuid() {
		t.Errorf("%+v, %v; want pid %d", peer, err, pid)
	}
	if !peer.alive() {
		t.Error("it is said to be gone")
	}
	end()
	if peer.pidfd >= 0 && peer.alive() {
		t.Error("it is said to live after its end")
	}
}

// A number says nothing about who connected once it may be somebody else's.
func TestNumberOfAPeerThatIsGoneCountsForNothing(t *testing.T) {
	_, c, end := connectedChild(t)
	origin := ours
	s := serverOf(busyWorker(), func(o *Options) {
		o.Processes = &fakeProcesses{origin: func(int) observe.Origin { return origin }}
	})
	conn := &connection{Conn: c, at: time.Now()}
	if a := s.overSocket(conn); a.class != operator {
		t.Errorf("while it lives: %s", a.class)
	}
	origin.Process.StartedAt = time.Now().Add(time.Second)
	if a := s.overSocket(conn); a.class != descendant {
		t.Errorf("one that was started later: %s", a.class)
	}
	origin = ours
	end()
	if peer, _ := peerOf(c); peer.pidfd < 0 {
		t.Skip("the kernel has no SO_PEERPIDFD")
	}
	if a := s.overSocket(conn); a.class != descendant {
		t.Errorf("after its end: %s", a.class)
	}
}

// TestConnectForAnother is the child of the test above.
func TestConnectForAnother(t *testing.T) {
	path := os.Getenv("EXECWORKER_TEST_CONNECT")
	if path == "" {
		t.Skip("it is the child of another test")
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	os.Stdin.Read(make([]byte, 1))
}

// Where the kernel lists sockets but not their inodes, nothing follows from that.
func TestTablesOfSocketsAreRead(t *testing.T) {
	from, to := netip.MustParseAddrPort("127.0.0.1:4660"), netip.MustParseAddrPort("127.0.0.1:9690")
	row := func(state, inode string) string {
		return "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
			"   0: " + tableAddr(from, false) + " " + tableAddr(to, false) + " " + state + " 00000000:00000000 00:00000000 00000000     0        0 " + inode + " 1\n"
	}
	empty := row("01", "1")[:40] + "\n"
	for _, c := range []struct {
		name   string
		tables []string // what is in them; "" is none that can be read
		want   uint64
		bad    bool
	}{
		{"a socket", []string{row("01", "812"), ""}, 812, false},
		{"none", []string{empty, empty}, 0, false},
		{"none, and no second table", []string{empty, ""}, 0, false},
		{"one that was closed", []string{row("06", "0"), empty}, 0, false},
		{"one without an inode", []string{row("01", "0"), empty}, 0, true},
		{"no tables", []string{"", ""}, 0, true},
	} {
		dir := t.TempDir()
		var tables []string
		for i, text := range c.tables {
			tables = append(tables, filepath.Join(dir, strconv.Itoa(i)))
			if text != "" {
				os.WriteFile(tables[i], []byte(text), 0o600)
			}
		}
		got, err := inodeInTables(tables, from, to)
		if got != c.want || (err != nil) != c.bad {
			t.Errorf("%s: %d, %v", c.name, got, err)
		}
	}
}
