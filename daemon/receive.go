package daemon

import (
	"errors"
	"fmt"
	"io"
	"time"

	"execworker/daemon/observe"
	sandboxv1 "execworker/proto/sandbox/v1"

	"google.golang.org/grpc"
)

// receive reads frames until the stream ends and returns why it did. It never
// waits for work: what a frame sets off goes on elsewhere.
func (s *session) receive(stream grpc.ClientStream) error {
	for {
		var in inbound
		if err := stream.RecvMsg(&in); err != nil {
			if errors.Is(err, io.EOF) {
				return io.EOF
			}
			return fmt.Errorf("receive: %w", err)
		}
		s.note(func(r *observe.Session) { r.FramesIn++; r.LastRecvAt = time.Now() })
		if s.closing.Load() {
			continue // nobody would send an answer: for the relay it was never read
		}
		switch msg := in.frame.GetMsg().(type) {
		case *sandboxv1.ServerFrame_Exec:
			s.note(func(*observe.Session) { s.asked = true })
			s.exec(msg.Exec, in.invalid)
		case *sandboxv1.ServerFrame_Abort:
			s.abort(msg.Abort.GetReqId())
		default:
			reason := "no message that this worker knows"
			if in.invalid != nil {
				reason = in.invalid.Error()
			}
			s.d.observer.Event(s.ctx, observe.FrameIgnored{Session: s.number, Reason: reason})
		}
	}
}

// exec admits an Exec frame, or answers it at once.
func (s *session) exec(req *sandboxv1.Exec, malformed error) {
	x := newExecution(s, req)
	if malformed == nil {
		malformed = checkKey(req.GetWorkspaceKey())
	}
	if malformed != nil {
		s.reply(x, s.d.ledger.refuse(x, refused(malformed)))
		return
	}
	s.reply(x, s.d.ledger.admit(x))
}

// reply carries out what the ledger decided about x.
func (s *session) reply(x *execution, v decision) {
	x.event(observe.Judged{
		Exec: x.exec, Verdict: v.verdict, Reason: v.answer.message, Collided: v.collided,
		Queued: v.queued, Running: v.running,
	})
	switch v.verdict {
	case observe.VerdictRun, observe.VerdictWait:
	case observe.VerdictJoin:
		x.cancel(errOver)
	default:
		x.cancel(errOver)
		s.answer(v.answer.frame(x.reqID))
	}
	close(v.judged)
	if v.start {
		s.d.slots.Go(func() { s.d.slot(x) })
	}
}

// answer queues a frame of an exec that never ran. A relay that takes no more
// of them is left.
func (s *session) answer(f *sandboxv1.WorkerFrame) {
	if !s.sender.answer(f) {
		s.end(errWedged)
	}
}

// abort stops what is in flight on this stream under reqID, if anything is.
func (s *session) abort(reqID uint64) {
	wish := observe.AbortRequested{By: observe.EndedByCaller, At: time.Now()}
	if !s.d.abort(reqID, s, wish) {
		s.d.observer.Event(s.ctx, observe.FrameIgnored{Session: s.number, Reason: "abort of a req_id that is not in flight"})
	}
}

// abort stops an exec of s, or of any session where s is nil.
func (d *Daemon) abort(reqID uint64, s *session, wish observe.AbortRequested) bool {
	x, unbegun := d.ledger.abort(reqID, s, wish)
	if x == nil {
		return false
	}
	wish.Exec = x.exec
	cause := errAborted{wish}
	if unbegun {
		<-x.judged
		x.reportAbort(cause)
		x.conclude(x.stopped(cause))
	} else {
		x.cancel(cause) // the slot reports it, if it comes in time
	}
	return true
}
