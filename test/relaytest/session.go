package relaytest

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	sandboxv1 "execworker/proto/sandbox/v1"
)

type workerStream = grpc.BidiStreamingServer[sandboxv1.WorkerFrame, sandboxv1.ServerFrame]

// Session is one attached stream, from its Hello to its end.
type Session struct {
	Hello   *sandboxv1.Hello
	HelloAt time.Time

	relay  *Relay
	stream workerStream
	gate   *gate         // shut while stalled
	over   chan struct{} // closed when the stream has ended
	sendMu sync.Mutex    // one sender at a time

	mu         sync.Mutex // guards the rest
	err        error      // why over: io.EOF after the worker's CloseSend
	answer     error      // what the RPC returns
	tracks     map[uint64]*track
	conflicts  map[uint64]bool
	heartbeats []time.Time
	fences     uint64
	changed    chan struct{} // closed and replaced at each frame
}

type service struct {
	sandboxv1.UnimplementedSandboxWorkerServer
	relay *Relay
}

// Attach serves the worker. Two workers under one sandbox_id are both let in: a
// relay that has not noticed the loss of a stream is what the tests play.
func (v service) Attach(stream workerStream) error {
	r := v.relay
	a := Attach{At: time.Now()}
	if !bears(stream.Context(), r.token) {
		a.Refused = "bad token"
		r.begin(a, nil)
		return nil
	}
	first, err := stream.Recv()
	if err != nil {
		a.Refused = "no Hello: " + err.Error()
		r.begin(a, nil)
		return err
	}
	if a.Hello = first.GetHello(); a.Hello == nil {
		r.fault("the first frame is not a Hello: %T", first.GetMsg())
		a.Refused = "the first frame is not a Hello"
		r.begin(a, nil)
		return status.Error(codes.InvalidArgument, a.Refused)
	}
	s := &Session{
		Hello:     a.Hello,
		HelloAt:   time.Now(),
		relay:     r,
		stream:    stream,
		gate:      newGate(),
		over:      make(chan struct{}),
		tracks:    make(map[uint64]*track),
		conflicts: make(map[uint64]bool),
		changed:   make(chan struct{}),
	}
	if !r.begin(a, s) {
		return nil
	}
	r.wg.Go(s.receive) // may end only after this handler has returned
	<-s.over
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answer
}

// begin records an attach and says whether it may go on.
func (r *Relay) begin(a Attach, s *Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s != nil && r.refuse > 0 {
		r.refuse--
		a.Refused = "by RefuseHello"
	}
	r.attaches = append(r.attaches, a)
	if a.Refused == "" {
		r.sessions = append(r.sessions, s)
	}
	close(r.changed)
	r.changed = make(chan struct{})
	return a.Refused == ""
}

func bears(ctx context.Context, token string) bool {
	md, _ := metadata.FromIncomingContext(ctx)
	given := md.Get("authorization")
	return len(given) == 1 && subtle.ConstantTimeCompare([]byte(given[0]), []byte("Bearer "+token)) == 1
}

func (s *Session) receive() {
	gone := s.stream.Context().Done() // also when the handler has returned
	for {
		s.gate.pass(gone)
		f, err := s.stream.Recv()
		s.gate.pass(gone) // a Recv that was waiting must not slip through
		switch {
		case errors.Is(err, io.EOF):
			s.finish(io.EOF, nil)
			return
		case err != nil:
			if c := status.Code(err); c == codes.Internal || c == codes.ResourceExhausted {
				s.fault("a frame that cannot be taken: %v", err)
			}
			s.finish(err, err)
			return
		}
		s.record(f)
	}
}

// finish ends the session; the first call counts.
func (s *Session) finish(why, answer error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.err, s.answer = why, answer
	close(s.over)
	s.tellLocked()
}

func (s *Session) tellLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Stall stops reading frames: HTTP/2 flow control then stops the worker. Sending
// still works. Resume goes on.
func (s *Session) Stall()  { s.gate.shut() }
func (s *Session) Resume() { s.gate.open() }

// Drop ends the stream with a status; nil ends it cleanly.
func (s *Session) Drop(err error) {
	s.finish(fmt.Errorf("dropped by the test: %w", errors.Join(err, errDropped)), err)
}

// EndCleanly ends the stream with status OK, as a refusing relay does.
func (s *Session) EndCleanly() { s.Drop(nil) }

var errDropped = errors.New("stream ended")

// Over is closed when the stream has ended, from whichever side.
func (s *Session) Over() <-chan struct{} { return s.over }

// WaitOver waits for the stream's end and returns why it ended: io.EOF after the
// worker's CloseSend, a status of gRPC's when the stream or connection broke.
func (s *Session) WaitOver(t testing.TB) error {
	t.Helper()
	select {
	case <-s.over:
	case <-time.After(hang):
		t.Fatalf("wait for the stream's end: still open after %s", hang)
	}
	return s.why()
}

func (s *Session) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// WantCloseSend waits for the worker to end its side in order.
func (s *Session) WantCloseSend(t testing.TB) {
	t.Helper()
	if err := s.WaitOver(t); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v, want CloseSend", err)
	}
}

func (s *Session) fault(format string, args ...any) {
	s.relay.fault("sandbox %q: %s", s.Hello.GetSandboxId(), fmt.Sprintf(format, args...))
}
