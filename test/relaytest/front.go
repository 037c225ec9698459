package relaytest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// front is the TCP layer: it owns the port and all connections, so that it can
// stall and cut them under the gRPC server.
type front struct {
	addr string
	gate *gate
	wg   sync.WaitGroup // accept loops

	mu       sync.Mutex // guards the rest
	listener *net.TCPListener
	conns    map[*gatedConn]struct{}
	next     *feed // where a new connection goes
	hole     bool
}

func newFront(addr string) (*front, error) {
	f := &front{gate: newGate(), conns: make(map[*gatedConn]struct{}), addr: addr}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if port != "0" {
		return f, f.listen()
	}
	// Not a port of the kernel's choice: while the relay is stopped, another
	// test's outgoing connection could take it, or the worker could even connect
	// to itself.
	for range 50 {
		f.addr = net.JoinHostPort(host, strconv.Itoa(12000+rand.IntN(20000)))
		if err = f.listenOnce(); err == nil {
			return f, nil
		}
	}
	return nil, err
}

// listen binds f.addr, for a bounded time also against connections of before
// that the kernel has not forgotten yet.
func (f *front) listen() error {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := f.listenOnce()
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(deadline) {
			return err
		}
	}
}

func (f *front) listenOnce() error {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // its sockets take no filter
	l, err := lc.Listen(context.Background(), "tcp", f.addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listener = l.(*net.TCPListener)
	f.addr = l.Addr().String()
	f.wg.Go(func() { f.accept(l.(*net.TCPListener)) })
	return nil
}

func (f *front) accept(l *net.TCPListener) {
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			return // closed
		}
		g := &gatedConn{Conn: c, tcp: c, front: f, done: make(chan struct{})}
		f.mu.Lock()
		next := f.next
		if f.listener != l { // closed since
			next = nil
		}
		if next != nil {
			f.conns[g] = struct{}{}
		}
		f.mu.Unlock()
		if next == nil || !next.put(g) {
			g.reset()
		}
	}
}

// feedNext makes a listener that gets all connections from now on.
func (f *front) feedNext() net.Listener {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = &feed{conns: make(chan net.Conn), closed: make(chan struct{}), addr: f.addr}
	return f.next
}

func (f *front) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listener != nil {
		f.listener.Close()
		f.listener = nil
	}
}

func (f *front) cut() {
	for _, g := range f.open() {
		g.reset()
	}
}

func (f *front) open() []*gatedConn {
	f.mu.Lock()
	defer f.mu.Unlock()
	var gs []*gatedConn
	for g := range f.conns {
		gs = append(gs, g)
	}
	return gs
}

// blackhole puts a socket filter that drops everything on the listener and on
// all connections: the kernel applies it before it acknowledges. What we would
// send is held by the gate.
func (f *front) blackhole(on bool) error {
	conns := f.open()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hole == on {
		return nil
	}
	if on {
		f.gate.shut()
	}
	var errs []error
	if f.listener != nil {
		errs = append(errs, dropAll(f.listener, on))
	}
	for _, g := range conns {
		errs = append(errs, dropAll(g.tcp, on))
	}
	err := errors.Join(errs...)
	if !on || err != nil {
		f.gate.open()
	}
	f.hole = on
	return err
}

func dropAll(c syscall.Conn, on bool) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("socket filter: %w", err)
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		if !on {
			set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
			return
		}
		drop := [...]unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}} // keep 0 bytes
		set = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(drop)), Filter: &drop[0]})
	})
	if errors.Is(err, net.ErrClosed) || !on && errors.Is(set, unix.ENOENT) {
		return nil // gone, or made after the filters were set
	}
	if err = errors.Join(err, set); err != nil {
		return fmt.Errorf("socket filter: %w", err)
	}
	return nil
}
