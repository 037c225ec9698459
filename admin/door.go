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
	connectionsMost = 64       // at a door at a time
	asksPerSecond   = 100      // at a door: each is a look at the process table
	headerMost      = 16 << 10 // bytes
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
	network  string // tcp or unix
	open     atomic.Int64
	asks     *rate.Limiter
	failures *rate.Limiter // wrong tokens
	looking  sync.Mutex    // held while a peer is looked for
}

func newDoor(l net.Listener, network string) *door {
	return &door{
		Listener: l, network: network,
		asks:     rate.NewLimiter(asksPerSecond, asksPerSecond),
		failures: rate.NewLimiter(1, wrongTokens),
	}
}

// Accept gives the next connection. One too many is closed at once.
func (d *door) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if d.network == "tcp" && !isLoopback(c.RemoteAddr()) || d.open.Load() >= connectionsMost {
			c.Close()
			continue
		}
		d.open.Add(1)
		return &connection{Conn: c, door: d, at: time.Now()}, nil
	}
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
