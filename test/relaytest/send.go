package relaytest

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	sandboxv1 "execworker/proto/sandbox/v1"
)

// ExecOption sets a field of an Exec; what is not set is zero.
type ExecOption func(*sandboxv1.Exec)

// Stdin is the command's input.
func Stdin(b []byte) ExecOption { return func(x *sandboxv1.Exec) { x.Stdin = b } }

// Timeout is timeout_s, in seconds.
func Timeout(s uint32) ExecOption { return func(x *sandboxv1.Exec) { x.TimeoutS = s } }

// Streaming is whether chunks come as output appears.
func Streaming(yes bool) ExecOption { return func(x *sandboxv1.Exec) { x.Streaming = yes } }

// Key is workspace_key.
func Key(k string) ExecOption { return func(x *sandboxv1.Exec) { x.WorkspaceKey = k } }

// ExecFrame makes the frame that Exec sends.
func ExecFrame(id uint64, command string, opts ...ExecOption) *sandboxv1.ServerFrame {
	x := &sandboxv1.Exec{ReqId: id, Command: command}
	for _, o := range opts {
		o(x)
	}
	return &sandboxv1.ServerFrame{Msg: &sandboxv1.ServerFrame_Exec{Exec: x}}
}

// AbortFrame makes the frame that Abort sends.
func AbortFrame(id uint64) *sandboxv1.ServerFrame {
	return &sandboxv1.ServerFrame{Msg: &sandboxv1.ServerFrame_Abort{Abort: &sandboxv1.Abort{ReqId: id}}}
}

// Exec sends one exec. What WantEnd and the like say of id from now on is about
// the answer to this one; see Session.Result.
func (s *Session) Exec(t testing.TB, id uint64, command string, opts ...ExecOption) {
	t.Helper()
	s.Send(t, ExecFrame(id, command, opts...))
}

// Abort sends one abort.
func (s *Session) Abort(t testing.TB, id uint64) {
	t.Helper()
	s.Send(t, AbortFrame(id))
}

// Send sends a frame and blocks while the worker's flow control says so.
func (s *Session) Send(t testing.TB, f *sandboxv1.ServerFrame) {
	t.Helper()
	s.sendMessage(t, f, f.GetExec())
}

// Duplicate sends the same frame twice in a row. The worker may join the two, or,
// if the first is over by then, replay it: one or two terminal frames.
func (s *Session) Duplicate(t testing.TB, f *sandboxv1.ServerFrame) {
	t.Helper()
	s.Send(t, f)
	s.Send(t, f)
}

// SendRaw sends body as a message, whatever it is: an unknown field, invalid
// UTF-8, garbage, nothing. If it is a sound Exec, it counts as one.
func (s *Session) SendRaw(t testing.TB, body []byte) {
	t.Helper()
	var f sandboxv1.ServerFrame
	if proto.Unmarshal(body, &f) != nil {
		f.Reset()
	}
	s.sendMessage(t, rawMessage(body), f.GetExec())
}

// SendOversize sends an Exec with n bytes of stdin. The worker takes 64 MiB; it
// may end the stream while a larger one is on its way, so no error fails the test.
func (s *Session) SendOversize(id uint64, n int) {
	_ = s.TrySend(ExecFrame(id, "wc -c", Stdin(make([]byte, n))))
}

// TrySend is Send for a stream that may be ending; the error says how it did.
func (s *Session) TrySend(f *sandboxv1.ServerFrame) error {
	return s.trySend(f, f.GetExec())
}

func (s *Session) sendMessage(t testing.TB, m any, x *sandboxv1.Exec) {
	t.Helper()
	if err := s.trySend(m, x); err != nil {
		t.Fatal(err)
	}
}

func (s *Session) trySend(m any, x *sandboxv1.Exec) error {
	// Ending the stream is what unblocks a Send that the worker never takes.
	stuck := time.AfterFunc(hang, func() {
		s.finish(fmt.Errorf("a send was stuck for %s", hang), nil)
	})
	defer stuck.Stop()
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	select {
	case <-s.over:
		return fmt.Errorf("send %T: the stream is over: %w", m, s.why())
	default:
	}
	if x != nil {
		s.asked(x.GetReqId())
	}
	if err := s.stream.SendMsg(m); err != nil {
		return fmt.Errorf("send %T: %w", m, err)
	}
	return nil
}
