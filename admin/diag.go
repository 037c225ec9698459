package admin

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// The kernel's own list of sockets, asked over netlink for exactly one
// (sock_diag(7)). It needs no privilege and knows our network namespace only.

const (
	netlinkHeader = 16                 // struct nlmsghdr
	diagByFamily  = 20                 // SOCK_DIAG_BY_FAMILY
	diagAnyCookie = 0xffffffffffffffff // INET_DIAG_NOCOOKIE, UDIAG_NOCOOKIE
	diagAnyState  = 0xffffffff

	// Of struct inet_diag_msg: family, state, timer, retrans; then the socket's id
	// (48), expires, rqueue, wqueue, uid, inode (4 each).
	diagInodeAt = 4 + 48 + 4*4

	unixDiagRequest = 24     // struct unix_diag_req
	unixDiagMessage = 16     // struct unix_diag_msg, before its attributes
	unixShowPeer    = 1 << 2 // UDIAG_SHOW_PEER
	unixDiagPeer    = 2      // UNIX_DIAG_PEER
)

// diagInode is the inode of a TCP socket; 0 when there is none, or none that a
// process has. A socket of an IPv6 family that speaks IPv4 is found as one of IPv4.
func diagInode(from, to netip.AddrPort) (uint64, error) {
	answer, err := diag(diagRequest(from, to))
	if err != nil || answer == nil {
		return 0, err
	}
	if len(answer) < diagInodeAt+4 {
		return 0, unix.EBADMSG
	}
	return uint64(binary.NativeEndian.Uint32(answer[diagInodeAt:])), nil
}

// diagRequest is a struct nlmsghdr and a struct inet_diag_req_v2.
func diagRequest(from, to netip.AddrPort) []byte {
	native, network := binary.NativeEndian, binary.BigEndian
	b := diagHeader(56)
	q := b[netlinkHeader:]
	q[0] = unix.AF_INET6
	if from.Addr().Is4() {
		q[0] = unix.AF_INET
	}
	q[1] = unix.IPPROTO_TCP
	native.PutUint32(q[4:], diagAnyState)
	network.PutUint16(q[8:], from.Port())
	network.PutUint16(q[10:], to.Port())
	copy(q[12:28], from.Addr().AsSlice())
	copy(q[28:44], to.Addr().AsSlice())
	native.PutUint64(q[48:], diagAnyCookie)
	return b
}

// diagPeer is the inode of the unix socket that the one of inode own is connected
// to; 0 when that is closed.
func diagPeer(own uint64) (uint64, error) {
	native := binary.NativeEndian
	b := diagHeader(unixDiagRequest)
	q := b[netlinkHeader:]
	q[0] = unix.AF_UNIX
	native.PutUint32(q[4:], diagAnyState)
	native.PutUint32(q[8:], uint32(own)) // the kernel numbers sockets with 32 bits
	native.PutUint32(q[12:], unixShowPeer)
	native.PutUint64(q[16:], diagAnyCookie)
	answer, err := diag(b)
	if err != nil || answer == nil {
		return 0, err
	}
	return peerIn(answer)
}

// peerIn finds the peer in a struct unix_diag_msg and its attributes.
func peerIn(answer []byte) (uint64, error) {
	native := binary.NativeEndian
	if len(answer) < unixDiagMessage {
		return 0, unix.EBADMSG
	}
	for rest := answer[unixDiagMessage:]; len(rest) >= unix.SizeofRtAttr; { // struct rtattr: length, type; padded to 4
		length, kind := int(native.Uint16(rest)), native.Uint16(rest[2:])
		if length < unix.SizeofRtAttr || length > len(rest) {
			return 0, unix.EBADMSG
		}
		if kind == unixDiagPeer && length >= unix.SizeofRtAttr+4 {
			return uint64(native.Uint32(rest[unix.SizeofRtAttr:])), nil
		}
		rest = rest[min((length+3)&^3, len(rest)):]
	}
	return 0, nil
}

// diagHeader is a request for one socket, whose body is still to be filled.
func diagHeader(body int) []byte {
	native := binary.NativeEndian
	b := make([]byte, netlinkHeader+body)
	native.PutUint32(b[0:], uint32(len(b)))
	native.PutUint16(b[4:], diagByFamily)
	native.PutUint16(b[6:], unix.NLM_F_REQUEST) // without NLM_F_DUMP: one socket
	return b
}

// diag asks one thing, and returns the body of the answer; nil when there is no
// such socket.
func diag(request []byte) ([]byte, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	// It never takes long; a kernel that says nothing must not hold us up.
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1})
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	buf := make([]byte, 4<<10)
	n, _, err := unix.Recvfrom(fd, buf, 0)
	if err != nil {
		return nil, err
	}
	return diagAnswer(buf[:n])
}

func diagAnswer(b []byte) ([]byte, error) {
	native := binary.NativeEndian
	if len(b) < netlinkHeader+4 {
		return nil, unix.EBADMSG
	}
	if native.Uint16(b[4:]) == unix.NLMSG_ERROR {
		if errno := unix.Errno(-int32(native.Uint32(b[netlinkHeader:]))); errno != unix.ENOENT {
			return nil, errno
		}
		return nil, nil // there is no such socket
	}
	length := int(native.Uint32(b))
	if native.Uint16(b[4:]) != diagByFamily || length > len(b) || length < netlinkHeader {
		return nil, unix.EBADMSG
	}
	return b[netlinkHeader:length], nil
}
