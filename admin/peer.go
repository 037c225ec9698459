package admin

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// socketPeer is who has made a connection over the unix socket.
type socketPeer struct {
	pid, uid int
	pidfd    int // -1 before Linux 6.5
}

// peerOf asks the kernel (SO_PEERCRED and SO_PEERPIDFD, unix(7)). The caller
// closes what it gets.
func peerOf(c net.Conn) (p socketPeer, err error) {
	p.pidfd = -1
	raw, ok := c.(syscall.Conn)
	if !ok {
		return p, errors.New("no socket")
	}
	conn, err := raw.SyscallConn()
	if err != nil {
		return p, err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); failed != nil {
			return
		}
		p.pid, p.uid = int(cred.Pid), int(cred.Uid)
		if pidfd, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD); err == nil {
			p.pidfd = pidfd
		}
	})
	return p, errors.Join(err, failed)
}

// alive says that the process has lived until now, so that its number is its
// own. Without a pidfd it says yes, and the start time has to tell.
func (p socketPeer) alive() bool {
	return p.pidfd < 0 || unix.PidfdSendSignal(p.pidfd, 0, nil, 0) != unix.ESRCH
}

func (p socketPeer) close() {
	if p.pidfd >= 0 {
		unix.Close(p.pidfd)
	}
}

// socketInode finds the inode of the socket at the other end of a connection on
// this machine: local is its own address there. 0 is none that is open.
func socketInode(local, remote net.Addr) (uint64, error) {
	from, to := addrPort(local), addrPort(remote)
	if !from.IsValid() || !to.IsValid() {
		return 0, fmt.Errorf("%v is no TCP address", local)
	}
	inode, err := diagInode(from, to)
	if err == nil {
		return inode, nil
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if inode, err = tableInode(table, from, to); err == nil && inode != 0 {
			return inode, nil
		}
	}
	return 0, err
}

func addrPort(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := tcp.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

// diagInode asks for exactly one socket over netlink (sock_diag(7)). A socket of
// an IPv6 family that speaks IPv4 is found as one of IPv4.
func diagInode(from, to netip.AddrPort) (uint64, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	// It never takes long; a kernel that says nothing must not hold us up.
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1})
	if err := unix.Sendto(fd, diagRequest(from, to), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	buf := make([]byte, 4<<10)
	n, _, err := unix.Recvfrom(fd, buf, 0)
	if err != nil {
		return 0, err
	}
	return diagAnswer(buf[:n])
}

const (
	netlinkHeader = 16 // struct nlmsghdr
	diagByFamily  = 20 // SOCK_DIAG_BY_FAMILY
	// Of struct inet_diag_msg: family, state, timer, retrans; then the socket's id
	// (48), expires, rqueue, wqueue, uid, inode (4 each).
	diagInodeAt = netlinkHeader + 4 + 48 + 4*4
)

// diagRequest is a struct nlmsghdr and a struct inet_diag_req_v2.
func diagRequest(from, to netip.AddrPort) []byte {
	native, network := binary.NativeEndian, binary.BigEndian
	b := make([]byte, netlinkHeader+56)
	native.PutUint32(b[0:], uint32(len(b)))
	native.PutUint16(b[4:], diagByFamily)
	native.PutUint16(b[6:], unix.NLM_F_REQUEST) // without NLM_F_DUMP: one socket
	q := b[netlinkHeader:]
	q[0] = unix.AF_INET6
	if from.Addr().Is4() {
		q[0] = unix.AF_INET
	}
	q[1] = unix.IPPROTO_TCP
	native.PutUint32(q[4:], 0xffffffff) // in any state
	network.PutUint16(q[8:], from.Port())
	network.PutUint16(q[10:], to.Port())
	copy(q[12:28], from.Addr().AsSlice())
	copy(q[28:44], to.Addr().AsSlice())
	native.PutUint64(q[48:], 0xffffffffffffffff) // INET_DIAG_NOCOOKIE
	return b
}

func diagAnswer(b []byte) (uint64, error) {
	native := binary.NativeEndian
	if len(b) < netlinkHeader+4 {
		return 0, unix.EBADMSG
	}
	if native.Uint16(b[4:]) == unix.NLMSG_ERROR {
		if errno := unix.Errno(-int32(native.Uint32(b[netlinkHeader:]))); errno != unix.ENOENT {
			return 0, errno
		}
		return 0, nil // there is no such socket
	}
	if native.Uint16(b[4:]) != diagByFamily || len(b) < diagInodeAt+4 {
		return 0, unix.EBADMSG
	}
	return uint64(native.Uint32(b[diagInodeAt:])), nil
}

// tableInode looks a socket up in /proc/net/tcp (proc_pid_net(5)), for kernels
// without sock_diag.
func tableInode(path string, from, to netip.AddrPort) (uint64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	wide := strings.HasSuffix(path, "6")
	local, remote := tableAddr(from, wide), tableAddr(to, wide)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// sl, local, remote, state, queues, timer, retransmits, uid, timeout, inode
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && fields[1] == local && fields[2] == remote {
			return strconv.ParseUint(fields[9], 10, 64)
		}
	}
	return 0, lines.Err()
}

// tableAddr is an address as the table writes it: words of 32 bits in the byte
// order of the machine.
func tableAddr(a netip.AddrPort, wide bool) string {
	ip := a.Addr().AsSlice()
	if wide {
		long := a.Addr().As16()
		ip = long[:]
	}
	for word := range slices.Chunk(ip, 4) {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	return fmt.Sprintf("%s:%04X", strings.ToUpper(hex.EncodeToString(ip)), a.Port())
}
