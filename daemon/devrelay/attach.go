package devrelay

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	sandboxv1 "execworker/proto/sandbox/v1"
)

type workerStream = grpc.BidiStreamingServer[sandboxv1.WorkerFrame, sandboxv1.ServerFrame]

type workerService struct {
	sandboxv1.UnimplementedSandboxWorkerServer
	relay *Relay
}

// Attach holds one worker's stream. What the relays in production refuse with a
// clean end and no status, this one refuses in the same way.
func (s workerService) Attach(stream workerStream) error {
	r := s.relay
	if !bears(stream.Context(), r.opts.WorkerToken) {
		r.event(Event{Kind: Refused, Why: "bad token"})
		return nil
	}
	first, err := stream.Recv()
	if err != nil {
		r.event(Event{Kind: Refused, Why: "no Hello: " + err.Error()})
		return err
	}
	hello := first.GetHello()
	if hello == nil {
		r.event(Event{Kind: Refused, Why: "the first frame is not a Hello"})
		return status.Error(codes.InvalidArgument, "attach: the first frame is not a Hello")
	}
	w, why := r.attach(stream.Context(), hello)
	if w == nil {
		r.event(Event{Kind: Refused, SandboxID: hello.GetSandboxId(), Why: why})
		return nil
	}
	r.event(Event{Kind: Attached, SandboxID: hello.GetSandboxId(), Received: first})

	// Both outlive this handler by a moment: a blocked Recv or Send only ends
	// when the handler has returned. Relay.Close waits for them.
	go func() {
		defer r.streams.Done()
		w.end(w.receive(stream))
		w.closeCalls()
	}()
	go func() {
		defer r.streams.Done()
		w.end(w.send(stream))
	}()

	<-w.ctx.Done()
	cause := context.Cause(w.ctx)
	r.event(Event{Kind: Detached, SandboxID: hello.GetSandboxId(), Why: detachedWhy(cause)})
	r.detach(w) // last: the next Attached must come after this Detached
	if _, isStatus := status.FromError(cause); isStatus {
		return cause
	}
	return nil
}

func detachedWhy(cause error) string {
	if errors.Is(cause, io.EOF) {
		return "the worker closed its stream"
	}
	return cause.Error()
}

// worker is one attached stream.
type worker struct {
	relay *Relay
	hello *sandboxv1.Hello

	ctx context.Context         // ends with the stream; its cause says why
	end context.CancelCauseFunc // the first cause counts

	wake chan struct{} // holds one token while the queue may have something

	mu    sync.Mutex // guards the rest; never held while sending
	calls map[uint64]*call
	// queue holds what send has not sent yet. It needs no bound of its own: an
	// Exec in it belongs to a call, whose handler holds that request anyway.
	queue []*sandboxv1.ServerFrame
	gone  bool // receive has ended: no call may be added
}

func newWorker(ctx context.Context, r *Relay, hello *sandboxv1.Hello) *worker {
	w := &worker{
		relay: r,
		hello: hello,
		wake:  make(chan struct{}, 1),
		calls: make(map[uint64]*call),
	}
	w.ctx, w.end = context.WithCancelCause(ctx)
	return w
}

// receive hands frames to their calls until the stream ends.
func (w *worker) receive(stream workerStream) error {
	for {
		f, err := stream.Recv()
		if err != nil {
			return err
		}
		if n := proto.Size(f); n > maxWorkerFrame {
			return status.Errorf(codes.ResourceExhausted, "attach: a frame of %d bytes, at most %d are taken", n, maxWorkerFrame)
		}
		if w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		w.relay.event(Event{Kind: Received, SandboxID: w.hello.GetSandboxId(), Received: f})
		w.deliver(f)
	}
}

// send is the only sender on the worker's stream.
func (w *worker) send(stream workerStream) error {
	for {
		for f := w.next(); f != nil; f = w.next() {
			w.relay.event(Event{Kind: Sent, SandboxID: w.hello.GetSandboxId(), Sent: f})
			if err := stream.Send(f); err != nil {
				return err
			}
		}
		select {
		case <-w.wake:
		case <-w.ctx.Done():
			return context.Cause(w.ctx)
		}
	}
}

func (w *worker) next() *sandboxv1.ServerFrame {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		return nil
	}
	f := w.queue[0]
	w.queue[0] = nil
	w.queue = w.queue[1:]
	return f
}

func (w *worker) enqueueLocked(f *sandboxv1.ServerFrame) {
	w.queue = append(w.queue, f)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
