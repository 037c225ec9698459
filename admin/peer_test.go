package admin

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// inodeOf is what /proc says of a socket of ours.
func inodeOf(t *testing.T, c *net.TCPConn) uint64 {
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

func TestPeerOfTheSocketIsWhoConnected(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// A process that connects, says so, and is gone when its stdin ends.
	child := exec.Command(os.Args[0], "-test.run=^TestConnectForAnother$")
	child.Env = append(os.Environ(), "EXECWORKER_TEST_CONNECT="+path)
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer, err := peerOf(c)
	defer peer.close()
	if err != nil || peer.pid != child.Process.Pid || peer.uid != os.Geteuid() {
		t.Errorf("%+v, %v; want pid %d", peer, err, child.Process.Pid)
	}
	if !peer.alive() {
		t.Error("it is said to be gone")
	}
	stdin.Close()
	child.Wait()
	if peer.pidfd >= 0 && peer.alive() {
		t.Error("it is said to live after its end")
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
