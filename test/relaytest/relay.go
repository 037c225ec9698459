package relaytest

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	sandboxv1 "execworker/proto/sandbox/v1"
)

const (
	// hang ends a wait for a frame that does not come.
	hang = 30 * time.Second
	// attachHang is longer: a worker that has failed often waits up to 30 s.
	attachHang = 75 * time.Second
)

// Relay is one misbehaving relay on one TCP port. New starts it and the test's
// end stops it.
type Relay struct {
	token   string
	options []grpc.ServerOption
	front   *front
	wg      sync.WaitGroup // goroutines that outlive their RPC by a moment

	mu       sync.Mutex // guards the rest
	server   *grpc.Server
	retired  []*grpc.Server // told to go away, with streams still open
	attaches []Attach
	sessions []*Session
	taken    int // sessions that Attach has handed out
	refuse   int // Hellos still to be refused
	faults   []string
	changed  chan struct{} // closed and replaced at each attach
}

// Attach is one Attach RPC as it began.
type Attach struct {
	At      time.Time
	Hello   *sandboxv1.Hello // nil where none came
	Refused string           // why it was ended at once; empty: it became a Session
}

type config struct {
	token, addr string
	options     []grpc.ServerOption
}

// Option changes a Relay before it starts.
type Option func(*config)

// WithToken sets the token that a worker must bear. Another one gets a clean end
// of stream, as in production.
func WithToken(token string) Option { return func(c *config) { c.token = token } }

// WithListenAddr sets the address; port 0 means any. Default: 127.0.0.1:0.
func WithListenAddr(addr string) Option { return func(c *config) { c.addr = addr } }

// WithTLS serves TLS; see Certs.
func WithTLS(tc *tls.Config) Option {
	return WithServerOptions(grpc.Creds(credentials.NewTLS(tc)))
}

// WithServerOptions adds options of the gRPC server, such as another limit.
func WithServerOptions(opts ...grpc.ServerOption) Option {
	return func(c *config) { c.options = append(c.options, opts...) }
}

// New starts a relay on a free loopback port.
func New(t testing.TB, opts ...Option) *Relay {
	t.Helper()
	c := config{token: "relaytest-token", addr: "127.0.0.1:0"}
	for _, o := range opts {
		o(&c)
	}
	c.options = append(c.options, grpc.ForceServerCodecV2(newCodec()), grpc.WaitForHandlers(true))
	r := &Relay{token: c.token, options: c.options, changed: make(chan struct{})}
	f, err := newFront(c.addr)
	if err != nil {
		t.Fatal(err)
	}
	r.front = f
	r.serve()
	t.Cleanup(func() { r.finish(t) })
	return r
}

// Addr is host:port, the same for as long as the relay lives.
func (r *Relay) Addr() string { return r.front.addr }

// Token is what a worker must bear.
func (r *Relay) Token() string { return r.token }

// serve starts a gRPC server on connections that come from now on, and returns
// the one before.
func (r *Relay) serve() *grpc.Server {
	s := grpc.NewServer(r.options...)
	sandboxv1.RegisterSandboxWorkerServer(s, service{relay: r})
	l := r.front.feedNext()
	r.wg.Go(func() { _ = s.Serve(l) }) // ends with Stop; its error says no more
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.server
	r.server = s
	return old
}

// Stop closes the listener and resets every connection: the port refuses until
// Start.
func (r *Relay) Stop() {
	r.front.close()
	r.front.cut()
	r.mu.Lock()
	servers := append(slices.Clone(r.retired), r.server)
	r.retired = nil
	r.mu.Unlock()
	for _, s := range servers {
		s.Stop()
	}
}

// Start listens again on the same port after Stop.
func (r *Relay) Start(t testing.TB) {
	t.Helper()
	if err := r.front.listen(); err != nil {
		t.Fatal(err)
	}
	r.serve()
}

// GoAway sends GOAWAY, as a relay does that is replaced by a new one on the same
// address: open streams go on until somebody ends them, new ones need a new
// connection.
func (r *Relay) GoAway() {
	old := r.serve()
	r.mu.Lock()
	r.retired = append(r.retired, old)
	r.mu.Unlock()
	r.wg.Go(old.GracefulStop)
}

// StallTCP lets no byte through either way, on old and new connections. The
// kernel still acknowledges what it has room for. ResumeTCP ends it.
func (r *Relay) StallTCP()  { r.front.gate.shut() }
func (r *Relay) ResumeTCP() { r.front.gate.open() }

// CutTCP resets every connection. The listener stays.
func (r *Relay) CutTCP() { r.front.cut() }

// BlackholeTCP makes the relay's machine vanish: packets to it are dropped before
// the kernel sees them, so nothing is acknowledged, no keepalive is answered and
// no connection can be made. RestoreTCP ends it.
func (r *Relay) BlackholeTCP(t testing.TB) {
	t.Helper()
	if err := r.front.blackhole(true); err != nil {
		t.Fatal(err)
	}
}

// RestoreTCP ends BlackholeTCP.
func (r *Relay) RestoreTCP(t testing.TB) {
	t.Helper()
	if err := r.front.blackhole(false); err != nil {
		t.Fatal(err)
	}
}

// RefuseHello makes the next n attaches end cleanly after their Hello, as a
// production relay ends a second worker under a live sandbox_id.
func (r *Relay) RefuseHello(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = n
}

// Attaches returns every attach so far, refused ones included.
func (r *Relay) Attaches() []Attach {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.attaches)
}

// WaitAttaches waits until there have been n attaches, refused ones included.
func (r *Relay) WaitAttaches(t testing.TB, n int) []Attach {
	t.Helper()
	r.wait(t, fmt.Sprintf("%d attaches", n), func() bool { return len(r.attaches) >= n })
	return r.Attaches()
}

// Attach waits for the next session that no Attach has returned yet, also one
// that is over by now.
func (r *Relay) Attach(t testing.TB) *Session {
	t.Helper()
	var s *Session
	r.wait(t, "the next attach", func() bool {
		if r.taken == len(r.sessions) {
			return false
		}
		s = r.sessions[r.taken]
		r.taken++
		return true
	})
	return s
}

// wait returns when ok, which runs with r.mu held, says so.
func (r *Relay) wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	timeout, cancel := context.WithTimeout(context.Background(), attachHang)
	defer cancel()
	for {
		r.mu.Lock()
		done, changed := ok(), r.changed
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-timeout.Done():
			t.Fatalf("wait for %s: nothing for %s; attaches so far: %d", what, attachHang, len(r.Attaches()))
		}
	}
}

// fault records what no worker may do.
func (r *Relay) fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.faults) < 20 {
		r.faults = append(r.faults, fmt.Sprintf(format, args...))
	}
}

func (r *Relay) finish(t testing.TB) {
	r.front.gate.open()
	r.Stop()
	r.wg.Wait()
	r.front.wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.faults {
		t.Errorf("worker: %s", f)
	}
}
