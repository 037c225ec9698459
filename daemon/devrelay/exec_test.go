package devrelay

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	sandboxv1 "execworker/proto/sandbox/v1"
)

func TestExecIsForwardedAsItCame(t *testing.T) {
	g := startRig(t, Options{})
	w := g.attachWorker(t, "a")
	x := &sandboxv1.Exec{ReqId: 1<<64 - 1, Command: "cat", Stdin: make([]byte, 5<<20), TimeoutS: 3, Streaming: true, WorkspaceKey: "k"}
	c := g.exec(t, "a", x)
	// The fake worker has gRPC's default limit of 4 MiB.
	f := new(sandboxv1.ServerFrame)
	if err := w.RecvMsg(f); status.Code(err) != codes.ResourceExhausted {
		t.Fatalf("got %v, want a frame above 4 MiB", err)
	}
	c.wantEvents("error worker disconnected")

	w = g.attachWorker(t, "a")
	x.Stdin = []byte("in")
	c = g.exec(t, "a", x)
	if got := w.wantExec(x.ReqId); !proto.Equal(got, x) {
		t.Errorf("worker got %v, want %v", got, x)
	}
	w.send(chunk(x.ReqId, "one"))
	w.send(&sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_Heartbeat{}})
	w.send(chunk(7, "of nobody"))
	w.send(chunk(x.ReqId, "two"))
	w.send(end(x.ReqId, 3))
	c.wantEvents("one", "two", "end 3")
}

func TestRefusalsSayWhy(t *testing.T) {
	g := startRig(t, Options{})
	s := g.exec(t, "nope", &sandboxv1.Exec{}).wantStatus(codes.NotFound)
	if !strings.Contains(s.Message(), `"nope" is not attached; attached: none`) {
		t.Error(s)
	}
	w := g.attachWorker(t, "a\x1b[2J")
	s = g.exec(t, "nope", &sandboxv1.Exec{}).wantStatus(codes.NotFound)
	if !strings.Contains(s.Message(), `attached: "a\x1b[2J"`) {
		t.Error(s)
	}
	g.exec(t, "a\x1b[2J", nil).wantStatus(codes.InvalidArgument)

	c := g.exec(t, "a\x1b[2J", &sandboxv1.Exec{ReqId: 4})
	w.wantExec(4)
	s = g.exec(t, "a\x1b[2J", &sandboxv1.Exec{ReqId: 4}).wantStatus(codes.AlreadyExists)
	if !strings.Contains(s.Message(), "req_id 4") {
		t.Error(s)
	}
	w.send(end(4, 0))
	c.wantEvents("end 0")

	client := sandboxv1.NewSandboxExecClient(g.conn)
	if _, err := client.Abort(bearing(g.ctx, "worker-token"), &sandboxv1.AbortRequest{SandboxId: "nope"}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("got %v, want Unauthenticated", err)
	}
	if _, err := client.Abort(g.ctx, &sandboxv1.AbortRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("got %v, want Unauthenticated", err)
	}
}

// TestReqIDIsFreeWithItsTerminalFrame repeats the moment at which a caller that
// has just read its End asks again: it must not be told "in use".
func TestReqIDIsFreeWithItsTerminalFrame(t *testing.T) {
	g := startRig(t, Options{})
	w := g.attachWorker(t, "a")
	for range 200 {
		c := g.exec(t, "a", &sandboxv1.Exec{ReqId: 4})
		w.wantExec(4)
		w.send(end(4, 0))
		c.wantEvents("end 0")
	}
}

func TestAbortIsForwarded(t *testing.T) {
	g := startRig(t, Options{})
	w := g.attachWorker(t, "a")
	if _, err := sandboxv1.NewSandboxExecClient(g.conn).Abort(bearing(g.ctx, "exec-token"), &sandboxv1.AbortRequest{SandboxId: "a", ReqId: 9}); err != nil {
		t.Fatal(err)
	}
	w.wantAbort(9)
}

func TestCallerThatGoesAwayAbortsItsExec(t *testing.T) {
	g := startRig(t, Options{})
	w := g.attachWorker(t, "a")
	c := g.exec(t, "a", &sandboxv1.Exec{ReqId: 4})
	w.wantExec(4)
	c.cancel()
	w.wantAbort(4)
	w.send(chunk(4, "late"))
	g.exec(t, "a", &sandboxv1.Exec{ReqId: 4}).wantStatus(codes.AlreadyExists)
	w.send(end(4, -1))

	// A second exec's end comes after the first one's: then 4 is free.
	c = g.exec(t, "a", &sandboxv1.Exec{ReqId: 5})
	w.wantExec(5)
	w.send(end(5, 0))
	c.wantEvents("end 0")
	c = g.exec(t, "a", &sandboxv1.Exec{ReqId: 4})
	w.wantExec(4)
	w.send(end(4, 0))
	c.wantEvents("end 0")
}

func TestExecNotYetSentIsForgottenWithItsCaller(t *testing.T) {
	w := newWorker(t.Context(), New(Options{}), &sandboxv1.Hello{SandboxId: "a"})
	c, err := w.open(&sandboxv1.Exec{ReqId: 4})
	if err != nil {
		t.Fatal(err)
	}
	w.leave(c)
	if f := w.next(); f != nil {
		t.Errorf("queued %v, want nothing", f)
	}
	if _, err := w.open(&sandboxv1.Exec{ReqId: 4}); err != nil {
		t.Errorf("the req_id is not free: %v", err)
	}
}

// flood is more than the call's buffer and both HTTP/2 windows hold.
const flood = 600

func (w *fakeWorker) startFlood(id uint64, last ...*sandboxv1.WorkerFrame) (done chan error) {
	done = make(chan error, 1)
	data := strings.Repeat("x", 32<<10)
	go func() {
		for range flood {
			if err := w.Send(chunk(id, data)); err != nil {
				done <- err
				return
			}
		}
		for _, f := range last {
			if err := w.Send(f); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	return done
}

func TestSlowCallerAloneLosesNothing(t *testing.T) {
	g := startRig(t, Options{SlowCaller: time.Millisecond})
	w := g.attachWorker(t, "a")
	c := g.exec(t, "a", &sandboxv1.Exec{ReqId: 1})
	w.wantExec(1)
	flooded := w.startFlood(1, end(1, 0))
	select {
	case err := <-flooded:
		t.Fatalf("the flood went through with nobody reading: %v", err)
	case <-time.After(50 * time.Millisecond): // many times SlowCaller
	}
	n := 0
	for {
		ev, err := c.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if ev.GetEnd() != nil {
			break
		}
		n += len(ev.GetChunk().GetData())
	}
	if n != flood*32<<10 {
		t.Errorf("caller got %d bytes, want %d", n, flood*32<<10)
	}
	if err := <-flooded; err != nil {
		t.Error(err)
	}
}

func TestSlowCallerIsGivenUpWhenOthersWait(t *testing.T) {
	g := startRig(t, Options{SlowCaller: 20 * time.Millisecond})
	w := g.attachWorker(t, "a")
	slow := g.exec(t, "a", &sandboxv1.Exec{ReqId: 1})
	w.wantExec(1)
	other := g.exec(t, "a", &sandboxv1.Exec{ReqId: 2})
	w.wantExec(2)
	flooded := w.startFlood(1, chunk(2, "kept"), end(2, 0), end(1, -1))
	w.wantAbort(1)
	other.wantEvents("kept", "end 0")
	if err := <-flooded; err != nil {
		t.Error(err)
	}
	if s := slow.wantStatus(codes.ResourceExhausted); !strings.Contains(s.Message(), "did not read") {
		t.Error(s)
	}
}

// Nobody waits for a caller that does not read while its output fits its buffer,
// be it in large chunks or in many small ones.
func TestSlowCallerHoldsUpNobodyWithinItsBuffer(t *testing.T) {
	for _, size := range []int{32 << 10, 64} {
		g := startRig(t, Options{SlowCaller: hang})
		w := g.attachWorker(t, "a")
		slow := g.exec(t, "a", &sandboxv1.Exec{ReqId: 1})
		w.wantExec(1)
		other := g.exec(t, "a", &sandboxv1.Exec{ReqId: 2})
		w.wantExec(2)
		data := strings.Repeat("x", size)
		n := buffered / 2 / (size + eventCost)
		for range n {
			w.send(chunk(1, data))
		}
		w.send(end(1, 3))
		w.send(chunk(2, "kept"))
		w.send(end(2, 0))
		other.wantEvents("kept", "end 0")
		for range n {
			ev, err := slow.Recv()
			if err != nil || eventText(ev) != data {
				t.Fatalf("got %q, %v", eventText(ev), err)
			}
		}
		slow.wantEvents("end 3")
	}
}

func TestCallBufferIsBounded(t *testing.T) {
	c := newCall(&sandboxv1.Exec{ReqId: 1})
	_, large := eventOf(chunk(1, strings.Repeat("x", buffered)))
	_, small := eventOf(chunk(1, ""))
	if !c.offer(large) { // or it could never go through
		t.Fatal("an event larger than the buffer finds no place in an empty one")
	}
	if c.offer(small) {
		t.Error("a full buffer takes more")
	}
	if ev, _ := c.take(); ev != large {
		t.Errorf("took %v", ev)
	}
	n := 0
	for c.offer(small) {
		n++
	}
	if n == 0 || n > buffered/eventCost {
		t.Errorf("%d empty chunks found a place", n)
	}
}

func TestCloseEndsACallThatIsHeldUp(t *testing.T) {
	g := startRig(t, Options{})
	w := g.attachWorker(t, "a")
	c := g.exec(t, "a", &sandboxv1.Exec{ReqId: 1})
	w.wantExec(1)
	flooded := w.startFlood(1)
	if _, err := c.Recv(); err != nil {
		t.Fatal(err)
	}
	g.relay.Close()
	if err := <-flooded; err == nil {
		t.Error("the flood went through")
	}
	c.cancel()
	if w, why := g.relay.attach(context.Background(), &sandboxv1.Hello{SandboxId: "b"}); w != nil || why == "" {
		t.Error("a closed relay let a worker in")
	}
}
