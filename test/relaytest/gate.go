package relaytest

import (
	"net"
	"sync"
)

// gate is open or shut.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed while the gate is open
}

func newGate() *gate {
	g := &gate{opened: make(chan struct{})}
	close(g.opened)
	return g
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
		g.opened = make(chan struct{})
	default:
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
	default:
		close(g.opened)
	}
}

// pass blocks while the gate is shut, until done.
func (g *gate) pass(done <-chan struct{}) {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	select {
	case <-opened:
	case <-done:
	}
}

// gatedConn passes no byte while the front's gate is shut.
type gatedConn struct {
	net.Conn // the interface, so that nothing goes round Read and Write
	tcp      *net.TCPConn
	front    *front
	once     sync.Once
	done     chan struct{} // closed by Close
}

func (g *gatedConn) Read(p []byte) (int, error) {
	n, err := g.tcp.Read(p)
	g.front.gate.pass(g.done) // after: a Read that was waiting must not slip through
	return n, err
}

func (g *gatedConn) Write(p []byte) (int, error) {
	g.front.gate.pass(g.done)
	return g.tcp.Write(p)
}

func (g *gatedConn) Close() error {
	g.once.Do(func() {
		close(g.done)
		g.front.mu.Lock()
		delete(g.front.conns, g)
		g.front.mu.Unlock()
	})
	return g.tcp.Close()
}

func (g *gatedConn) reset() {
	_ = g.tcp.SetLinger(0) // fails only where the connection is gone
	_ = g.Close()
}

// feed is the listener of one gRPC server.
type feed struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
	addr   string
}

func (l *feed) put(c net.Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.closed:
		return false
	}
}

func (l *feed) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *feed) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *feed) Addr() net.Addr {
	a, _ := net.ResolveTCPAddr("tcp", l.addr)
	return a
}
