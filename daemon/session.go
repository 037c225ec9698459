package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"execworker/daemon/observe"
	sandboxv1 "execworker/proto/sandbox/v1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	heartbeatEvery = 15 * time.Second
	// closeWait is what the relay gets to take the last frames of a drain.
	closeWait = time.Second
)

var (
	errDialTimeout = errors.New("relay did not answer in time")
	errWedged      = errors.New("relay takes no answers: not even a refusal can be queued")
	errFinished    = errors.New("worker is shutting down")
)

// session is one attached stream, from Hello to its end.
type session struct {
	d      *Daemon
	number uint64
	sender *sender
	ctx    context.Context // ends with the session; its cause says why
	end    context.CancelCauseFunc

	closing atomic.Bool // nothing that is read from now on will be answered

	mu     sync.Mutex
	record observe.Session
	asked  bool // an Exec has come

	lost int // execs that have ended because the session did; guarded by the ledger's lock
}

// attach dials, says Hello and serves until the stream ends. The record that
// it returns says how that was.
func (d *Daemon) attach(ctx context.Context, record observe.Session) observe.Session {
	s := &session{d: d, number: record.Number, sender: newSender(), record: record}
	s.ctx, s.end = context.WithCancelCause(ctx)
	d.sessions.begin(s)
	d.observer.Event(ctx, observe.Dialing{Session: record})

	err := s.serve()
	s.end(err)
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", errStopped, err)
	}
	s.sender.kill()
	unbegun, lost := d.ledger.drop(s, outcome{kind: observe.OutcomeLost})
	for _, x := range unbegun {
		x.conclude(x.stopped(context.Cause(s.ctx)))
	}
	return d.sessions.finish(s, err, lost)
}

// serve returns why the session ended.
func (s *session) serve() error {
	conn, err := s.d.cfg.Relay.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := s.open(conn)
	if err != nil {
		return err
	}

	var wg sync.WaitGroup
	defer wg.Wait()
	defer s.end(errFinished) // whoever still waits for this session stops now
	wg.Go(func() { s.end(s.receive(stream)) })
	wg.Go(func() {
		if err := s.send(stream); err != nil {
			s.end(err)
		}
	})
	select {
	case <-s.ctx.Done():
	case <-s.d.drained:
		s.finish()
		return errFinished
	}
	s.sender.kill()
	return context.Cause(s.ctx)
}

// open makes the Attach stream and sends Hello.
func (s *session) open(conn *grpc.ClientConn) (grpc.ClientStream, error) {
	token, err := s.d.cfg.Relay.Token()
	if err != nil {
		return nil, err
	}
	opened := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { s.watchOpening(opened) })
	defer watch.Wait()
	defer close(opened)
	ctx := metadata.AppendToOutgoingContext(s.ctx, "authorization", "Bearer "+token)
	stream, err := conn.NewStream(ctx, &sandboxv1.SandboxWorker_ServiceDesc.Streams[0], sandboxv1.SandboxWorker_Attach_FullMethodName)
	if err != nil {
		return nil, s.cause(err)
	}
	s.note(func(r *observe.Session) { r.ConnectedAt = time.Now() })
	hello := outbound{frame: helloFrame(s.d.cfg.hello(s.d.capabilities))}
	if err := stream.SendMsg(&hello); err != nil {
		return nil, s.cause(streamError(stream, err))
	}
	s.sent(&hello)
	s.note(func(r *observe.Session) { r.HelloAt = time.Now() })
	s.d.observer.Event(s.ctx, observe.Attached{Session: s.snapshot()})
	return stream, nil
}

// watchOpening ends an attempt that takes too long, or that nobody wants any
// more.
func (s *session) watchOpening(opened <-chan struct{}) {
	timer := time.NewTimer(dialTimeout)
	defer timer.Stop()
	select {
	case <-opened:
	case <-timer.C:
		s.end(errDialTimeout)
	case <-s.d.draining:
		s.end(errFinished)
	}
}

// cause prefers what we ended the session for to the error that came of it.
func (s *session) cause(err error) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return err
}

// streamError is the relay's status for a send that failed, which gRPC reports
// as io.EOF.
func streamError(stream grpc.ClientStream, err error) error {
	if errors.Is(err, io.EOF) {
		if received := stream.RecvMsg(new(inbound)); received != nil {
			return received
		}
	}
	return err
}

// send is the only sender on the stream, and beats its heart. When the relay
// does not read it waits in SendMsg; the end of the session frees it.
func (s *session) send(stream grpc.ClientStream) error {
	heart := time.NewTicker(heartbeatEvery)
	defer heart.Stop()
	out := new(outbound) // one for all: gRPC does not keep it
	for {
		for {
			select {
			case <-heart.C: // also while there is always something to send
				s.sender.beat()
			default:
			}
			frame, done := s.sender.next()
			if done {
				return stream.CloseSend()
			}
			if frame == nil {
				break
			}
			out.frame = frame
			if err := stream.SendMsg(out); err != nil {
				if errors.Is(err, io.EOF) {
					return nil // receive gets the status
				}
				return fmt.Errorf("send: %w", err)
			}
			s.sent(out)
		}
		select {
		case <-s.sender.wake:
		case <-heart.C:
			s.sender.beat()
		case <-s.ctx.Done():
			return nil
		}
	}
}

// finish lets the last frames out and hangs up.
func (s *session) finish() {
	s.closing.Store(true)
	s.sender.finish()
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-s.ctx.Done(): // the relay has taken them and ended the stream
	case <-timer.C:
		s.end(errFinished)
	}
}

// note changes the record.
func (s *session) note(change func(*observe.Session)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.record)
}

func (s *session) snapshot() observe.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record
}

func (s *session) sent(out *outbound) {
	f, _ := out.frame.(*sandboxv1.WorkerFrame)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.FramesOut++
	s.record.BytesOut += int64(out.size)
	if f.GetHeartbeat() != nil {
		s.record.HeartbeatAt = time.Now()
	}
}

// endReason is one short phrase for how a session ended.
func endReason(r observe.Session, err error) string {
	switch {
	case errors.Is(err, errFinished), errors.Is(err, errStopped):
		return "shutdown"
	case errors.Is(err, errWedged):
		return "egress wedged"
	case r.HelloAt.IsZero():
		return "attach failed"
	case errors.Is(err, io.EOF) && !r.Healthy && r.FramesIn == 0:
		return "refused or duplicate sandbox_id"
	case errors.Is(err, io.EOF):
		return "relay ended the stream"
	case status.Code(err) == codes.ResourceExhausted:
		return "message too large"
	}
	return "stream broke"
}
