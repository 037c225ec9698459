package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"execworker/daemon/observe"
	"execworker/daemon/process"
	"execworker/daemon/runner"
	sandboxv1 "execworker/proto/sandbox/v1"
)

// execution is one Exec frame on its way to its terminal frame.
//
//	waiting ─► queued ─► spawning ─► running ─► draining ─► ended
//	                                    └────► killing ───────▲
type execution struct {
	d           *Daemon
	exec        observe.Exec
	reqID       uint64
	fingerprint fingerprint
	size        int             // of what it holds while it waits, in bytes
	request     *sandboxv1.Exec // dropped once it runs no more
	session     *session        // the one it came on; none of it is sent on another
	lane        *lane

	// ctx ends with the session, an abort or a drain, and its cause is which.
	ctx    context.Context
	cancel context.CancelCauseFunc

	// judged is closed when the verdict has been reported: nothing of x is
	// reported or sent before. One that has waited gets a verdict twice, and
	// the ledger a new channel for it. Whoever takes x out of the ledger may
	// wait for it without the lock.
	judged chan struct{}

	// Guarded by the ledger's lock.
	state    observe.State
	heir     *execution // the same req_id on a later session, waiting for this to be gone
	abort    *observe.AbortRequested
	collided bool

	kept  *kept // the output, in buffered mode
	meter meter
}

// meter counts while an exec runs. Each field is written by one goroutine at a
// time and may be read by any.
type meter struct {
	pid         atomic.Int64
	startedAt   atomic.Int64 // Unix ns, as all times here
	firstByteAt atomic.Int64
	lastByteAt  atomic.Int64
	stdout      atomic.Int64 // bytes
	stderr      atomic.Int64
	chunks      atomic.Int64
	blocked     atomic.Int64 // ns that readers waited for room
	blockedFrom atomic.Int64 // since when one waits; 0 if none does
}

// Causes for an execution's context to end, beside the end of its session.
type errAborted struct{ wish observe.AbortRequested }

func (e errAborted) Error() string { return "aborted by " + string(e.wish.By) }

type errDrained struct{}

func (errDrained) Error() string { return "drained: worker is shutting down" }

func newExecution(s *session, req *sandboxv1.Exec) *execution {
	x := &execution{
		d:           s.d,
		reqID:       req.GetReqId(),
		fingerprint: fingerprintOf(req),
		size:        len(req.GetCommand()) + len(req.GetStdin()),
		request:     req,
		session:     s,
		judged:      make(chan struct{}),
	}
	hash := sha256.Sum256([]byte(req.GetCommand()))
	x.exec = observe.Exec{
		ID:           observe.SandboxID(x.reqID),
		Seq:          s.d.seq.Add(1),
		Session:      s.number,
		Command:      strings.Clone(req.GetCommand()[:min(len(req.GetCommand()), observe.CommandKept)]),
		CommandBytes: len(req.GetCommand()),
		CommandHash:  hex.EncodeToString(hash[:]),
		Fingerprint:  x.fingerprint.String(),
		StdinBytes:   len(req.GetStdin()),
		Timeout:      time.Duration(req.GetTimeoutS()) * time.Second,
		Streaming:    req.GetStreaming(),
		WorkspaceKey: req.GetWorkspaceKey(),
		ReceivedAt:   time.Now(),
	}
	if !x.exec.Streaming {
		x.kept = new(kept)
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	x.ctx, x.cancel = s.d.observer.Begin(ctx, x.exec), cancel
	return x
}

// event reports a fact of this exec.
func (x *execution) event(e observe.Event) { x.d.observer.Event(x.ctx, e) }

// Put takes output from the runner: into the lane, or kept until the end.
func (x *execution) Put(stream runner.Stream, slab *runner.Slab) *runner.Slab {
	m := &x.meter
	now := time.Now().UnixNano()
	if m.firstByteAt.CompareAndSwap(0, now) {
		x.event(observe.FirstOutput{Exec: x.exec, Stream: stream.String(), After: time.Duration(now - m.startedAt.Load())})
	}
	m.lastByteAt.Store(now)
	if stream == runner.Stderr {
		m.stderr.Add(int64(len(*slab)))
	} else {
		m.stdout.Add(int64(len(*slab)))
	}
	if x.kept != nil {
		return x.kept.put(stream, slab)
	}
	m.chunks.Add(1)
	return x.lane.put(stream, slab, x.blocked)
}

// blocked is told when a reader begins and ends to wait for room.
func (x *execution) blocked(waiting bool) {
	now := time.Now().UnixNano()
	if waiting {
		x.meter.blockedFrom.Store(now)
	} else if from := x.meter.blockedFrom.Swap(0); from != 0 {
		x.meter.blocked.Add(now - from)
	}
}

// MainEnded, Killing and Killed are the runner's turns.
func (x *execution) MainEnded() { x.d.ledger.setState(x, observe.StateDraining) }

func (x *execution) Killing(cause error) {
	x.d.ledger.setState(x, observe.StateKilling)
	x.event(observe.KillBegan{Exec: x.exec, By: endedBy(cause)})
}

func (x *execution) Killed(sweep process.Sweep) {
	x.event(observe.KillEnded{Exec: x.exec, Took: sweep.Took, Containment: x.d.containment(sweep)})
}

// endedBy is who a cause stands for.
func endedBy(cause error) observe.EndedBy {
	switch e := cause.(type) {
	case nil:
		return observe.EndedBySelf
	case errAborted:
		return e.wish.By
	case errDrained:
		return observe.EndedByDrain
	}
	if cause == runner.ErrTimeout {
		return observe.EndedByTimeout
	}
	return observe.EndedByDisconnect
}

// stopped is the outcome of an exec that was stopped for cause, before it began
// or while it ran.
func (x *execution) stopped(cause error) outcome {
	o := outcome{by: endedBy(cause)}
	switch o.by {
	case observe.EndedByTimeout:
		return timedOut(uint32(x.exec.Timeout / time.Second))
	case observe.EndedByCaller, observe.EndedByAdmin:
		o.kind = observe.OutcomeAbort
	case observe.EndedByDrain:
		o.kind, o.message = observe.OutcomeDrained, cause.Error()
	default:
		o.kind, o.message = observe.OutcomeLost, fmt.Sprintf("session ended: %v", cause)
	}
	return o
}
