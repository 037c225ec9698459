package admin

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

const (
	connectionsMost = 64              // at a door at a time
	lookWait        = 2 * time.Second // for the looks before it
	headerMost      = 16 << 10        // bytes
	headerTime      = 5 * time.Second
	idleTime        = 60 * time.Second
	wrongTokens     = 5 // at a door in a row; then one a second
	// startSlack is how exact the start time of a process is: a clock tick, and
	// the reading of two clocks.
	startSlack = 50 * time.Millisecond
)

// door is one listener with limits of its own, so that whoever crowds one leaves
// the others free.
type door struct {
	net.Listener
	network  string                 // tcp or unix
	inside   func(*connection) bool // whether a command has made it, where that is known at once; else nil
	open     atomic.Int64
	looks    *rate.Limiter // at the process table
	looking  chan struct{} // has room for one look
	guessing sync.Mutex    // guards failures
	failures *rate.Limiter // wrong tokens
}

// looksPerSecond is how many looks at the process table a door is good for, in a
// row and as a rule. Each costs some milliseconds of CPU, and over TCP commands can
// ask for them.
var looksPerSecond = map[string]rate.Limit{"unix": 100, "tcp": 20}

func newDoor(l net.Listener, network string) *door {
	most := looksPerSecond[network]
	return &door{
		Listener: l, network: network,
		looks: rate.NewLimiter(most, int(2*most)), looking: make(chan struct{}, 1),
		failures: rate.NewLimiter(1, wrongTokens),
	}
}

// look waits for its turn to look at the process table. Call done after it.
func (d *door) look(ctx context.Context) (done func(), no *refusal) {
	if d.looks.Allow() {
		timer := time.NewTimer(lookWait)
		defer timer.Stop()
		select {
		case d.looking <- struct{}{}:
			return func() { <-d.looking }, nil
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return nil, &refusal{
		kind: tooMany, detail: "more requests come in here than can be looked into",
		hint: "ask again in a second, or over the unix socket, which is counted apart",
	}
}

// Accept gives the next connection. One too many is closed at once.
func (d *door) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		conn := &connection{Conn: c, door: d, at: time.Now()}
		if d.network == "tcp" && !isLoopback(c.RemoteAddr()) || d.full(conn) {
			c.Close()
			continue
		}
		d.open.Add(1)
		return conn, nil
	}
}

// full says that there is no room for c. Half of the room is never for commands,
// where they are known at once: they must not shut everybody out.
func (d *door) full(c *connection) bool {
	open := d.open.Load()
	return open >= connectionsMost || open >= connectionsMost/2 && d.inside != nil && d.inside(c)
}

// connection is one at a door.
type connection struct {
	net.Conn
	door   *door
	at     time.Time // when it was accepted
	closed sync.Once
}

// Close makes room for another one.
func (c *connection) Close() error {
	c.closed.Do(func() { c.door.open.Add(-1) })
	return c.Conn.Close()
}

type connKey struct{}

// newHTTP makes the server that all doors share.
func (s *Server) newHTTP() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           s.Handler(),
		Protocols:         protocols,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    headerMost,
		// "OPTIONS *" is for the guard as well, not for net/http to answer by itself.
		DisableGeneralOptionsHandler: true,
		BaseContext:                  func(net.Listener) context.Context { return s.streams },
		ConnContext:                  func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:                     serverLog(s.options.Log),
	}
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// host is an address without its port, as it was written.
func host(addr string) string {
	name, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return strings.ToLower(name)
}
