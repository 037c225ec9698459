package daemon

import (
	"fmt"
	"strings"

	"execworker/daemon/observe"
	"execworker/daemon/runner"
	sandboxv1 "execworker/proto/sandbox/v1"
)

// outcome is how an exec ended, in our terms. This file alone knows how that
// looks on the wire.
type outcome struct {
	kind      observe.Outcome
	by        observe.EndedBy
	code      int    // of an exit
	truncated bool   // buffered stdout was cut
	message   string // of what is answered with an ExecError; begins with the step
	reason    string // that an abort gave; never on the wire
}

// frame is the terminal frame, or nil if there is nobody left to send it to.
func (o outcome) frame(reqID uint64) *sandboxv1.WorkerFrame {
	switch o.kind {
	case observe.OutcomeExit:
		return endFrame(reqID, o.code, o.truncated)
	case observe.OutcomeSignal, observe.OutcomeAbort:
		return endFrame(reqID, -1, o.truncated)
	case observe.OutcomeLost:
		return nil
	default:
		return errorFrame(reqID, o.message)
	}
}

// remembered says whether dedup keeps the outcome. What was aborted, killed,
// refused or lost may do better at a second try.
func (o outcome) remembered() bool {
	return o.kind == observe.OutcomeExit && o.code >= 0 || o.kind == observe.OutcomeTimeout
}

func endFrame(reqID uint64, code int, truncated bool) *sandboxv1.WorkerFrame {
	return &sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_End{End: &sandboxv1.End{
		ReqId: reqID, ExitCode: int32(code), Truncated: truncated,
	}}}
}

// errorFrame makes the message valid UTF-8 and short: proto3 refuses to send
// anything else, and a refusal would end the session.
func errorFrame(reqID uint64, message string) *sandboxv1.WorkerFrame {
	const most = 4 << 10
	if len(message) > most {
		message = message[:most]
	}
	return &sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_Error{Error: &sandboxv1.ExecError{
		ReqId: reqID, Message: strings.ToValidUTF8(message, "\uFFFD"),
	}}}
}

func heartbeatFrame() *sandboxv1.WorkerFrame {
	return &sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_Heartbeat{Heartbeat: &sandboxv1.Heartbeat{}}}
}

func helloFrame(h *sandboxv1.Hello) *sandboxv1.WorkerFrame {
	return &sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_Hello{Hello: h}}
}

func wireStream(s runner.Stream) sandboxv1.Stream {
	if s == runner.Stderr {
		return sandboxv1.Stream_STREAM_STDERR
	}
	return sandboxv1.Stream_STREAM_STDOUT
}

// Refusals.
func busy(reason string) outcome {
	return outcome{kind: observe.OutcomeRefused, message: "busy: " + reason}
}

func refused(err error) outcome {
	return outcome{kind: observe.OutcomeRefused, message: err.Error()}
}

func conflict() outcome {
	return outcome{kind: observe.OutcomeRefused, message: "req_id conflict: another exec is in flight under this req_id"}
}

func timedOut(seconds uint32) outcome {
	return outcome{kind: observe.OutcomeTimeout, by: observe.EndedByTimeout, message: fmt.Sprintf("timeout:%d", seconds)}
}

func spawnFailed(err error) outcome {
	return outcome{kind: observe.OutcomeSpawnError, by: observe.EndedBySelf, message: err.Error()}
}

func notContained(left int) outcome {
	return outcome{kind: observe.OutcomeUncontained, message: fmt.Sprintf("containment: %d processes of this exec could not be proven gone", left)}
}
