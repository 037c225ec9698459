package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	sandboxv1 "execworker/proto/sandbox/v1"

	"google.golang.org/grpc"
)

// execHang is far above what any step takes.
const execHang = 60 * time.Second

// relay is the far end of the worker and of the raw sender: a grpc-go server with
// its defaults, which takes frames and notes when they came.
type relay struct {
	sandboxv1.UnimplementedSandboxWorkerServer
	addr     string
	server   *grpc.Server
	sessions chan *session // one place, for the next Hello
}

func startRelay() (*relay, error) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	r := &relay{
		addr:     lis.Addr().String(),
		server:   grpc.NewServer(grpc.ForceServerCodecV2(codec{})),
		sessions: make(chan *session, 1),
	}
	sandboxv1.RegisterSandboxWorkerServer(r.server, r)
	go func() { _ = r.server.Serve(lis) }() // ends with stop
	return r, nil
}

func (r *relay) stop() { r.server.Stop() }

// Attach serves one stream to its end.
func (r *relay) Attach(stream sandboxv1.SandboxWorker_AttachServer) error {
	s := &session{stream: stream, over: make(chan struct{}), calls: make(map[uint64]*call)}
	defer close(s.over)
	for {
		var in inbound
		if err := stream.RecvMsg(&in); err != nil {
			return nil // over tells
		}
		now := time.Now()
		if in.frame.GetHello() != nil {
			s.helloAt = now
			r.sessions <- s
			continue
		}
		s.deliver(&in, now)
	}
}

// session waits for the next Hello.
func (r *relay) session(ctx context.Context) (*session, error) {
	select {
	case s := <-r.sessions:
		return s, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(execHang):
		return nil, errors.New("no Hello came")
	}
}

// session is one attached stream. Its methods may be used by several goroutines.
type session struct {
	stream  sandboxv1.SandboxWorker_AttachServer
	helloAt time.Time
	over    chan struct{}

	sending sync.Mutex // held around Send

	mu    sync.Mutex // guards the calls
	calls map[uint64]*call
}

// call is one exec as the relay sees it. The receiving goroutine writes it until
// done is closed.
type call struct {
	s       *session
	reqID   uint64
	sentAt  time.Time
	begun   chan struct{} // closed at the first chunk
	done    chan struct{} // closed at the terminal frame
	firstAt time.Time
	endedAt time.Time
	chunks  int
	bytes   int
	end     *sandboxv1.WorkerFrame
}

var reqIDs atomic.Uint64

// exec has a command run under a new req_id.
func (s *session) exec(command string) (*call, error) {
	return s.send(&sandboxv1.Exec{ReqId: reqIDs.Add(1), Command: command, Streaming: true})
}

// send sends an Exec frame.
func (s *session) send(e *sandboxv1.Exec) (*call, error) {
	c := &call{s: s, reqID: e.GetReqId(), begun: make(chan struct{}), done: make(chan struct{})}
	s.mu.Lock()
	s.calls[c.reqID] = c
	s.mu.Unlock()
	frame := &sandboxv1.ServerFrame{Msg: &sandboxv1.ServerFrame_Exec{Exec: e}}
	s.sending.Lock()
	defer s.sending.Unlock()
	c.sentAt = time.Now()
	return c, s.stream.Send(frame)
}

// abort sends an Abort frame and tells when.
func (c *call) abort() (time.Time, error) {
	frame := &sandboxv1.ServerFrame{Msg: &sandboxv1.ServerFrame_Abort{Abort: &sandboxv1.Abort{ReqId: c.reqID}}}
	c.s.sending.Lock()
	defer c.s.sending.Unlock()
	now := time.Now()
	return now, c.s.stream.Send(frame)
}

func (s *session) deliver(in *inbound, now time.Time) {
	reqID := in.reqID
	if !in.isChunk {
		reqID = max(in.frame.GetEnd().GetReqId(), in.frame.GetError().GetReqId())
	}
	s.mu.Lock()
	c := s.calls[reqID]
	if c != nil && !in.isChunk {
		delete(s.calls, reqID)
	}
	s.mu.Unlock()
	switch {
	case c == nil: // a heartbeat
	case in.isChunk:
		if c.chunks++; c.chunks == 1 {
			c.firstAt = now
			close(c.begun)
		}
		c.bytes += in.bytes
	default:
		c.endedAt, c.end = now, &in.frame
		close(c.done)
	}
}

// wait waits for a step of the call: begun or done.
func (c *call) wait(ctx context.Context, step <-chan struct{}) error {
	timer := time.NewTimer(execHang)
	defer timer.Stop()
	select {
	case <-step:
		return nil
	case <-c.s.over:
		return errors.New("the stream ended")
	case <-timer.C:
		return fmt.Errorf("exec %d: nothing for %s", c.reqID, execHang)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin waits for the first output.
func (c *call) begin(ctx context.Context) error {
	select {
	case <-c.done:
	default:
		return c.wait(ctx, c.begun)
	}
	return fmt.Errorf("exec %d ended with %v before it began", c.reqID, c.end)
}

// succeed waits for an exit with code 0.
func (c *call) succeed(ctx context.Context) error {
	if err := c.wait(ctx, c.done); err != nil {
		return err
	}
	if end := c.end.GetEnd(); end == nil || end.GetExitCode() != 0 {
		return fmt.Errorf("exec %d ended with %v", c.reqID, c.end)
	}
	return nil
}

// run runs one command to its end.
func (s *session) run(ctx context.Context, command string) (*call, error) {
	c, err := s.exec(command)
	if err != nil {
		return nil, err
	}
	return c, c.succeed(ctx)
}

func (c *call) took() time.Duration { return c.endedAt.Sub(c.sentAt) }
