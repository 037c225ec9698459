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
	err = descriptorOf(c, func(fd int) error {
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			return err
		}
		p.pid, p.uid = int(cred.Pid), int(cred.Uid)
		if pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD); err == nil {
			p.pidfd = pidfd
		}
		return nil
	})
	return p, err
}

// descriptorOf lends the descriptor of a connection.
func descriptorOf(c net.Conn, to func(fd int) error) error {
	raw, ok := c.(syscall.Conn)
	if !ok {
		return errors.New("no socket")
	}
	conn, err := raw.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) { failed = to(int(fd)) })
	return errors.Join(err, failed)
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

// inodeBehind finds the inode of the socket that a connection over the unix
// socket was made with. 0 is none that is open. An error is for want of unix_diag.
func inodeBehind(c net.Conn) (inode uint64, err error) {
	var own unix.Stat_t
	if err := descriptorOf(c, func(fd int) error { return unix.Fstat(fd, &own) }); err != nil {
		return 0, err
	}
	return diagPeer(own.Ino)
}

// connectedStill says that nobody else can have the other address of a TCP
// connection: only after a reset, which leaves ours in TCP_CLOSE, or when both
// ends have said goodbye, may the kernel give it to another socket.
func connectedStill(c net.Conn) bool {
	const established, closeWait = 1, 8 // tcp_states.h
	var info *unix.TCPInfo
	err := descriptorOf(c, func(fd int) (err error) {
		info, err = unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		return err
	})
	return err == nil && (info.State == established || info.State == closeWait)
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
	return inodeInTables([]string{"/proc/net/tcp", "/proc/net/tcp6"}, from, to)
}

// inodeInTables asks one table after the other; there may be no second one.
func inodeInTables(tables []string, from, to netip.AddrPort) (inode uint64, err error) {
	read := false
	for _, table := range tables {
		inode, err = tableInode(table, from, to)
		if inode != 0 || err == errNoInode {
			return inode, err
		}
		read = read || err == nil
	}
	if read {
		return 0, nil
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

// tableEstablished is TCP_ESTABLISHED as the table writes it: the socket of a
// process, which has an inode. A socket that was closed has another state.
const tableEstablished = "01"

// errNoInode is of a kernel that is not Linux itself and tells less.
var errNoInode = errors.New("the table of sockets has no inodes here")

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
			inode, err := strconv.ParseUint(fields[9], 10, 64)
			if inode == 0 && fields[3] == tableEstablished {
				err = errNoInode
			}
			return inode, err
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
