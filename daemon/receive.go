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
		s.note(func(r *observe.Session) {
			r.FramesIn++
			r.BytesIn += int64(in.size)
			r.LastRecvAt = time.Now()
		})
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
		Exec: x.exec, Verdict: v.verdict, Reason: v.answer.message, Collided: v.collided, Original: v.original,
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
