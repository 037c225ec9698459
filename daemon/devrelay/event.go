package devrelay

import sandboxv1 "execworker/proto/sandbox/v1"

// Kind says what an Event is about.
type Kind int

const (
	Attached Kind = iota + 1 // a worker said Hello and is in; Received is its first frame
	Detached                 // it is gone; Why says how
	Refused                  // an Attach was turned away; Why says how
	Sent                     // a frame is about to go to a worker
	Received                 // a frame came from a worker
)

// Event is one thing that a Relay did or saw. Frames are shared with the relay:
// read them, do not change or keep them. Their text came from outside.
type Event struct {
	Kind      Kind
	SandboxID string // empty where no Hello was read
	Sent      *sandboxv1.ServerFrame
	Received  *sandboxv1.WorkerFrame
	Why       string // of Detached and Refused
}

// event tells OnEvent. Calls are one at a time, so that a printer needs no lock.
func (r *Relay) event(e Event) {
	if r.opts.OnEvent == nil {
		return
	}
	r.eventMu.Lock()
	defer r.eventMu.Unlock()
	r.opts.OnEvent(e)
}
