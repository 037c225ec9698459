package devrelay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	sandboxv1 "execworker/proto/sandbox/v1"
)

// Options configure a Relay.
type Options struct {
	// WorkerToken is what a worker must bear. Empty lets no worker in.
	WorkerToken string
	// ExecToken is what a caller of SandboxExec must bear. Empty: WorkerToken.
	ExecToken string
	// OnEvent is told what happens, one call at a time, on the goroutines that
	// move the frames: it must not block. May be nil.
	OnEvent func(Event)
	// SlowCaller is how long a caller that does not read may hold up other
	// calls on the same worker before it is given up. 0 means 10 s.
	SlowCaller time.Duration
}

func (o Options) withDefaults() Options {
	o.ExecToken = cmp.Or(o.ExecToken, o.WorkerToken)
	o.SlowCaller = cmp.Or(o.SlowCaller, 10*time.Second)
	return o
}

// Relay is one relay. Make it with New, serve it with Serve or Register.
type Relay struct {
	opts    Options
	eventMu sync.Mutex     // held while OnEvent runs; never with another lock
	streams sync.WaitGroup // the two goroutines of each worker

	mu       sync.Mutex // guards the rest
	workers  map[string]*worker
	attached chan struct{} // closed and replaced when a worker comes
	closed   bool
}

// errDropped ends a worker's stream when Drop or Close asked for it.
var errDropped = errors.New("dropped by the relay")

// New makes a relay that nobody is attached to.
func New(opts Options) *Relay {
	return &Relay{
		opts:     opts.withDefaults(),
		workers:  make(map[string]*worker),
		attached: make(chan struct{}),
	}
}

// Register adds both services to s. The receive limit is that of s; Serve's is
// high enough for any exec that a worker takes. Stop s, then call Close.
func (r *Relay) Register(s grpc.ServiceRegistrar) {
	sandboxv1.RegisterSandboxWorkerServer(s, workerService{relay: r})
	sandboxv1.RegisterSandboxExecServer(s, execService{relay: r})
}

// Wait returns the Hello of the worker under sandboxID as soon as one is
// attached. The error is the context's cause, with the step before it.
func (r *Relay) Wait(ctx context.Context, sandboxID string) (*sandboxv1.Hello, error) {
	for {
		r.mu.Lock()
		w, attached := r.workers[sandboxID], r.attached
		r.mu.Unlock()
		if w != nil {
			return w.hello, nil
		}
		select {
		case <-attached:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for sandbox %q: %w", sandboxID, context.Cause(ctx))
		}
	}
}

// Sandboxes returns the Hello of every attached worker, by sandbox_id. They are
// shared: do not change them.
func (r *Relay) Sandboxes() []*sandboxv1.Hello {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sandboxesLocked()
}

func (r *Relay) sandboxesLocked() []*sandboxv1.Hello {
	hellos := make([]*sandboxv1.Hello, 0, len(r.workers))
	for _, w := range r.workers {
		hellos = append(hellos, w.hello)
	}
	slices.SortFunc(hellos, func(a, b *sandboxv1.Hello) int {
		return strings.Compare(a.GetSandboxId(), b.GetSandboxId())
	})
	return hellos
}

// Drop ends the stream of the worker under sandboxID, cleanly, and says whether
// there was one. It does not wait; the worker may attach again at once.
func (r *Relay) Drop(sandboxID string) bool {
	r.mu.Lock()
	w := r.workers[sandboxID]
	r.mu.Unlock()
	if w == nil {
		return false
	}
	w.end(errDropped)
	return true
}

// Close ends every worker's stream, refuses new ones, and returns when no
// goroutine of the relay is left. The gRPC server is its owner's to stop.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	for _, w := range r.workers {
		w.end(errDropped)
	}
	r.mu.Unlock()
	r.streams.Wait()
}

// attach lets a worker in, or says why not. The caller owes one Done of
// r.streams for each of its two goroutines.
func (r *Relay) attach(ctx context.Context, hello *sandboxv1.Hello) (*worker, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := hello.GetSandboxId()
	switch {
	case r.closed:
		return nil, "the relay is closed"
	case id == "":
		return nil, "the Hello has no sandbox_id"
	case r.workers[id] != nil:
		return nil, "another worker is attached under this sandbox_id"
	}
	w := newWorker(ctx, r, hello)
	r.workers[id] = w
	r.streams.Add(2)
	close(r.attached)
	r.attached = make(chan struct{})
	return w, ""
}

// detach makes room for the next worker under the same sandbox_id.
func (r *Relay) detach(w *worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.workers, w.hello.GetSandboxId())
}
