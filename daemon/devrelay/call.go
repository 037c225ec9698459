package devrelay

import (
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sandboxv1 "execworker/proto/sandbox/v1"
)

// buffered is how many events wait for one caller: 2 MiB of full chunks.
const buffered = 64

// call is one Exec call of a caller, from open to its terminal frame.
type call struct {
	id   uint64
	sent *sandboxv1.ServerFrame // its Exec, to find it in the queue

	// events ends after the terminal frame, or without one when the worker is
	// gone or err is set. Only receive sends on it and closes it.
	events chan *sandboxv1.ExecEvent
	closed bool  // of receive alone
	err    error // set before events is closed

	left chan struct{} // closed by the caller's handler when it gave up waiting
}

// open reserves the exec's req_id and queues its frame, as one step.
func (w *worker) open(x *sandboxv1.Exec) (*call, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		return nil, status.Errorf(codes.NotFound, "exec: sandbox %q has just detached", w.hello.GetSandboxId())
	}
	if w.calls[x.GetReqId()] != nil {
		return nil, status.Errorf(codes.AlreadyExists, "exec: req_id %d has no terminal frame yet on sandbox %q", x.GetReqId(), w.hello.GetSandboxId())
	}
	c := &call{
		id:     x.GetReqId(),
		sent:   &sandboxv1.ServerFrame{Msg: &sandboxv1.ServerFrame_Exec{Exec: x}},
		events: make(chan *sandboxv1.ExecEvent, buffered),
		left:   make(chan struct{}),
	}
	w.calls[c.id] = c
	w.enqueueLocked(c.sent)
	return c, nil
}

// leave is called once, by a caller that stops waiting. An exec that the worker
// has not been sent yet is forgotten; any other is aborted and keeps its req_id
// until its terminal frame. Looking and queueing are one step, so that the Abort
// can never meet a later exec under the same req_id.
func (w *worker) leave(c *call) {
	close(c.left)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls[c.id] != c {
		return
	}
	if i := slices.Index(w.queue, c.sent); i >= 0 {
		w.queue = slices.Delete(w.queue, i, i+1)
		delete(w.calls, c.id)
		return
	}
	w.enqueueLocked(abortFrame(c.id))
}

// abort queues an Abort whether or not the relay knows the req_id.
func (w *worker) abort(id uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.enqueueLocked(abortFrame(id))
}

func abortFrame(id uint64) *sandboxv1.ServerFrame {
	return &sandboxv1.ServerFrame{Msg: &sandboxv1.ServerFrame_Abort{Abort: &sandboxv1.Abort{ReqId: id}}}
}

// deliver gives one frame to its call. It runs on receive's goroutine and blocks
// while the call's buffer is full, as the package comment says.
func (w *worker) deliver(f *sandboxv1.WorkerFrame) {
	id, ev := eventOf(f)
	if ev == nil {
		return
	}
	w.mu.Lock()
	c := w.calls[id]
	if isTerminal(ev) {
		// Before the caller can see it: it may use the number again at once.
		delete(w.calls, id)
	}
	w.mu.Unlock()
	if c == nil || c.closed {
		return
	}
	if !w.put(c, ev) || isTerminal(ev) {
		c.closed = true
		close(c.events)
	}
}

// put says whether the event found its place, or nobody wants it any more.
func (w *worker) put(c *call, ev *sandboxv1.ExecEvent) bool {
	select {
	case c.events <- ev:
		return true
	default:
	}
	patience := time.NewTicker(w.relay.opts.SlowCaller)
	defer patience.Stop()
	for {
		select {
		case c.events <- ev:
			return true
		case <-c.left:
			return true
		case <-w.ctx.Done():
			return false
		case <-patience.C:
			if w.giveUp(c) {
				c.err = status.Errorf(codes.ResourceExhausted, "exec: req_id %d: its caller did not read for %s while other calls waited", c.id, w.relay.opts.SlowCaller)
				return false
			}
		}
	}
}

// giveUp aborts the call's exec if another caller waits behind it. It runs on
// receive's goroutine.
func (w *worker) giveUp(c *call) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	held := false
	for _, other := range w.calls {
		held = held || other != c && !other.closed && !other.hasLeft()
	}
	if held && w.calls[c.id] == c {
		w.enqueueLocked(abortFrame(c.id))
	}
	return held
}

func (c *call) hasLeft() bool {
	select {
	case <-c.left:
		return true
	default:
		return false
	}
}

// closeCalls runs on receive's goroutine when the stream is over.
func (w *worker) closeCalls() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
	for _, c := range w.calls {
		if !c.closed {
			c.closed = true
			close(c.events)
		}
	}
	clear(w.calls)
}

// eventOf returns what a caller sees of a worker's frame: nil for a Heartbeat, a
// second Hello or a frame of a later version.
func eventOf(f *sandboxv1.WorkerFrame) (uint64, *sandboxv1.ExecEvent) {
	switch m := f.GetMsg().(type) {
	case *sandboxv1.WorkerFrame_Chunk:
		return m.Chunk.GetReqId(), &sandboxv1.ExecEvent{Event: &sandboxv1.ExecEvent_Chunk{Chunk: m.Chunk}}
	case *sandboxv1.WorkerFrame_End:
		return m.End.GetReqId(), &sandboxv1.ExecEvent{Event: &sandboxv1.ExecEvent_End{End: m.End}}
	case *sandboxv1.WorkerFrame_Error:
		return m.Error.GetReqId(), &sandboxv1.ExecEvent{Event: &sandboxv1.ExecEvent_Error{Error: m.Error}}
	}
	return 0, nil
}

func isTerminal(ev *sandboxv1.ExecEvent) bool {
	return ev.GetEnd() != nil || ev.GetError() != nil
}
