package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
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

	// judged is closed when the verdict has been reported: nothing else of x is
	// reported before. One that has waited for a dying run gets a verdict
	// twice, and from the ledger a new channel for it, under its lock.
	judged chan struct{}

	// Guarded by the ledger's lock.
	state    observe.State
	heir     *execution // the same req_id on a later session, waiting for this to be gone
	abort    *observe.AbortRequested
	collided bool

	kept    *kept // the output, in buffered mode
	hashes  [2]outputHash
	meter   meter
	waiting [2]func(bool) // marks the waits of the meter
}

// meter counts while an exec runs. Each field is written by one goroutine at a
// time and may be read by any.
type meter struct {
	pid         atomic.Int64
	dequeuedAt  atomic.Int64 // Unix ns, as all times here
	startedAt   atomic.Int64
	firstByteAt atomic.Int64
	lastByteAt  atomic.Int64
	mainEndedAt atomic.Int64
	killBeganAt atomic.Int64
	stdout      atomic.Int64 // bytes
	stderr      atomic.Int64
	chunks      [2]atomic.Int64 // of stdout and of stderr
	pieces      atomic.Int64    // read, of both
	piecesOf    [2]atomic.Int64
	largest     [2]atomic.Int64 // bytes
	waits       [2]wait         // of the two readers for room in the lane; the slot's, after them, is with stdout's
}

// wait adds up how long somebody has waited.
type wait struct {
	total atomic.Int64 // ns
	most  atomic.Int64 // ns, at a time
	from  atomic.Int64 // since when; 0 while nobody waits
}

// mark is told when a wait begins and when it ends.
func (w *wait) mark(waiting bool) {
	now := time.Now().UnixNano()
	if waiting {
		w.from.Store(now)
	} else {
		took := now - w.from.Swap(0)
		w.total.Add(took)
		w.most.Store(max(took, w.most.Load()))
	}
}

// sendBlocked is how long output has waited for the relay, and whether it does.
func (m *meter) sendBlocked() (total time.Duration, waiting bool) {
	for i := range m.waits {
		total += time.Duration(m.waits[i].total.Load())
		if from := m.waits[i].from.Load(); from != 0 {
			total += time.Duration(time.Now().UnixNano() - from)
			waiting = true
		}
	}
	return total, waiting
}

// errOver ends the context of an execution that has ended.
var errOver = errors.New("exec is over")

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
		lane:        s.sender.lane(req.GetReqId()),
		judged:      make(chan struct{}),
	}
	for i := range x.waiting {
		x.waiting[i] = x.meter.waits[i].mark
	}
	hash := sha256.Sum256(bytesOf(req.GetCommand()))
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
		WorkspaceKey: strings.Clone(req.GetWorkspaceKey()[:min(len(req.GetWorkspaceKey()), maxKey)]),
		ReceivedAt:   time.Now(),
	}
	if !x.exec.Streaming {
		x.kept = new(kept)
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	x.ctx, x.cancel = s.d.observer.Begin(ctx, x.exec), cancel
	if t, ok := s.d.observer.(observe.Tracer); ok {
		x.exec.Trace = t.Trace(x.ctx)
	}
	return x
}

// environ is the environment of this exec's command.
func (x *execution) environ() []string {
	var added []string
	if t, ok := x.d.observer.(observe.Tracer); ok {
		added = t.ChildEnv(x.ctx)
	}
	if len(added) == 0 {
		return x.d.cfg.Env
	}
	replaced := make(map[string]bool, len(added))
	for _, entry := range added {
		name, _, _ := strings.Cut(entry, "=")
		replaced[name] = true
	}
	env := make([]string, 0, len(x.d.cfg.Env)+len(added))
	for _, entry := range x.d.cfg.Env {
		if name, _, _ := strings.Cut(entry, "="); !replaced[name] {
			env = append(env, entry)
		}
	}
	return append(env, slices.DeleteFunc(added, func(entry string) bool { return !strings.Contains(entry, "=") })...)
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
	of := stream - runner.Stdout
	x.grew(of, len(*slab))
	x.hashes[of].write(*slab)
	if x.kept != nil {
		return x.kept.put(stream, slab)
	}
	m.chunks[of].Add(1)
	return x.lane.put(stream, slab, x.waiting[of])
}

// grew counts a piece of one stream, whose reader alone calls it, and reports
// it if it is one of those worth telling of.
func (x *execution) grew(of runner.Stream, size int) {
	m := &x.meter
	m.largest[of].Store(max(int64(size), m.largest[of].Load()))
	first := m.piecesOf[of].Add(1) == 1
	if n := m.pieces.Add(1); n > 1 && (first || n&(n-1) == 0) {
		x.event(observe.OutputGrew{
			Exec: x.exec, Stream: (of + runner.Stdout).String(), First: first, Pieces: n,
			StdoutBytes: m.stdout.Load(), StderrBytes: m.stderr.Load(),
		})
	}
}

// MainEnded, Killing and Killed are the runner's turns.
func (x *execution) MainEnded() {
	x.meter.mainEndedAt.Store(time.Now().UnixNano())
	x.d.ledger.setState(x, observe.StateDraining)
}

func (x *execution) Killing(cause error) {
	x.meter.killBeganAt.Store(time.Now().UnixNano())
	x.d.ledger.setState(x, observe.StateKilling)
	x.reportAbort(cause)
	x.event(observe.KillBegan{Exec: x.exec, By: endedBy(cause)})
}

func (x *execution) Killed(sweep process.Sweep) {
	x.event(observe.KillEnded{Exec: x.exec, Took: sweep.Took, Containment: x.d.containment(sweep)})
}

// reportAbort reports the wish, if that is the cause.
func (x *execution) reportAbort(cause error) {
	if e, ok := cause.(errAborted); ok {
		x.event(e.wish)
	}
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
		o.reason = cause.(errAborted).wish.Reason
	case observe.EndedByDrain:
		o.kind, o.message = observe.OutcomeDrained, cause.Error()
	default:
		o.kind, o.message = observe.OutcomeLost, fmt.Sprintf("session ended: %v", cause)
	}
	return o
}
