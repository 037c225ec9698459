package devrelay

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	sandboxv1 "execworker/proto/sandbox/v1"
)

// buffered is how many bytes of events wait for one caller. An event counts for
// eventCost on top of its size, so that a flood of tiny ones is bounded too. One
// event always fits.
const (
	buffered  = 8 << 20
	eventCost = 128
)

// call is one Exec call of a caller, from open to its terminal frame.
type call struct {
	id   uint64
	sent *sandboxv1.ServerFrame // its Exec, to find it in the queue

	ready chan struct{} // holds one token while there may be something to take
	room  chan struct{} // holds one token while there may be room again
	left  chan struct{} // closed by the caller's handler when it gave up waiting

	closed bool // of receive alone: it has called end

	mu     sync.Mutex // guards the rest
	events []*sandboxv1.ExecEvent
	size   int
	ended  bool  // no event comes after those in events
	err    error // why there is no terminal frame among them; nil: the worker is gone
}

func newCall(x *sandboxv1.Exec) *call {
	return &call{
		id:    x.GetReqId(),
		sent:  &sandboxv1.ServerFrame{Msg: &sandboxv1.ServerFrame_Exec{Exec: x}},
		ready: make(chan struct{}, 1),
		room:  make(chan struct{}, 1),
		left:  make(chan struct{}),
	}
}

// offer says whether there was room for the event. Only receive calls it.
func (c *call) offer(ev *sandboxv1.ExecEvent) bool {
	cost := eventCost + proto.Size(ev)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size > 0 && c.size+cost > buffered {
		return false
	}
	c.events = append(c.events, ev)
	c.size += cost
	give(c.ready)
	return true
}

// end says that no event comes any more. Only receive calls it, once.
func (c *call) end(err error) {
	c.closed = true
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended, c.err = true, err
	give(c.ready)
}

// take returns the next event, nil if there is none yet. Only the caller's
// handler calls it.
func (c *call) take() (ev *sandboxv1.ExecEvent, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.events) == 0 {
		return nil, c.ended
	}
	ev = c.events[0]
	c.events[0] = nil
	c.events = c.events[1:]
	c.size -= eventCost + proto.Size(ev)
	give(c.room)
	return ev, false
}

// failure is why the call ended without a terminal frame.
func (c *call) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func give(token chan<- struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
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
	c := newCall(x)
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
	if taken, err := w.put(c, ev); !taken || isTerminal(ev) {
		c.end(err)
	}
}

// put says whether the event found its place, or nobody wants it any more; an
// error is what to tell the caller.
func (w *worker) put(c *call, ev *sandboxv1.ExecEvent) (taken bool, err error) {
	if c.offer(ev) {
		return true, nil
	}
	patience := time.NewTicker(w.relay.opts.SlowCaller)
	defer patience.Stop()
	for {
		select {
		case <-c.room:
			if c.offer(ev) {
				return true, nil
			}
		case <-c.left:
			return true, nil
		case <-w.ctx.Done():
			return false, nil
		case <-patience.C:
			if w.giveUp(c) {
				return false, status.Errorf(codes.ResourceExhausted, "exec: req_id %d: its caller did not read for %s while other calls waited", c.id, w.relay.opts.SlowCaller)
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
			c.end(nil)
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
