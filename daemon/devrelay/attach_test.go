package devrelay

import (
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	sandboxv1 "execworker/proto/sandbox/v1"
)

func TestBadTokenEndsCleanly(t *testing.T) {
	g := startRig(t, Options{})
	for _, token := range []string{"", "worker-toke", "exec-token"} {
		g.dialWorker(t, token).wantCleanEnd()
	}
}

func TestNoTokenConfiguredLetsNobodyIn(t *testing.T) {
	if bears(context.Background(), "") {
		t.Error("a relay without a token let a worker in")
	}
}

func TestSecondWorkerUnderOneIDEndsCleanly(t *testing.T) {
	g := startRig(t, Options{})
	first := g.attachWorker(t, "a")
	second := g.dialWorker(t, "worker-token")
	second.hello("a")
	second.wantCleanEnd()

	c := g.exec(t, "a", &sandboxv1.Exec{ReqId: 1})
	first.wantExec(1)
	first.send(end(1, 0))
	c.wantEvents("end 0")
}

func TestFirstFrameMustBeHello(t *testing.T) {
	g := startRig(t, Options{})
	w := g.dialWorker(t, "worker-token")
	w.send(chunk(1, "x"))
	if _, err := w.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("got %v, want InvalidArgument", err)
	}
}

func TestDropMakesRoomForTheNextAttach(t *testing.T) {
	var kinds []Kind
	g := startRig(t, Options{OnEvent: func(e Event) { kinds = append(kinds, e.Kind) }})
	if g.relay.Drop("a") {
		t.Error("Drop found a worker that never attached")
	}
	w := g.attachWorker(t, "a")
	c := g.exec(t, "a", &sandboxv1.Exec{ReqId: 1})
	w.wantExec(1)
	w.send(chunk(1, "out"))
	if ev, err := c.Recv(); err != nil || eventText(ev) != "out" {
		t.Fatal(ev, err)
	}
	if !g.relay.Drop("a") {
		t.Error("Drop did not find the worker")
	}
	w.wantCleanEnd()
	c.wantEvents("error worker disconnected")

	w = g.attachWorker(t, "a")
	c = g.exec(t, "a", &sandboxv1.Exec{ReqId: 1})
	w.wantExec(1)
	w.send(end(1, 2))
	c.wantEvents("end 2")

	g.relay.eventMu.Lock()
	defer g.relay.eventMu.Unlock()
	want := []Kind{Attached, Sent, Received, Detached, Attached, Sent, Received}
	if !slices.Equal(kinds, want) {
		t.Errorf("events %v, want %v", kinds, want)
	}
}

func TestWorkerThatCloseSendsIsDetachedCleanly(t *testing.T) {
	g := startRig(t, Options{})
	w := g.attachWorker(t, "a")
	c := g.exec(t, "a", &sandboxv1.Exec{ReqId: 1})
	w.wantExec(1)
	if err := w.CloseSend(); err != nil {
		t.Fatal(err)
	}
	w.wantCleanEnd()
	c.wantEvents("error worker disconnected")
}

func TestWaitEndsWithTheCauseOfItsContext(t *testing.T) {
	g := startRig(t, Options{})
	boredom := errors.New("boredom")
	ctx, cancel := context.WithCancelCause(g.ctx)
	cancel(boredom)
	if _, err := g.relay.Wait(ctx, "a"); !errors.Is(err, boredom) {
		t.Errorf("got %v, want the cause", err)
	}
}

func TestSandboxesAreListedInOrder(t *testing.T) {
	g := startRig(t, Options{})
	for _, id := range []string{"b", "c", "a"} {
		g.attachWorker(t, id)
	}
	var ids []string
	for _, h := range g.relay.Sandboxes() {
		ids = append(ids, h.GetSandboxId())
	}
	if !slices.Equal(ids, []string{"a", "b", "c"}) {
		t.Errorf("got %q", ids)
	}
}

func TestOversizeWorkerFrameEndsTheStream(t *testing.T) {
	g := startRig(t, Options{})
	w := g.attachWorker(t, "a")
	w.send(chunk(1, string(make([]byte, maxWorkerFrame))))
	if _, err := w.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v, want ResourceExhausted", err)
	}
}

func TestReflectionListsBothServices(t *testing.T) {
	g := startRig(t, Options{})
	ctx, cancel := context.WithCancel(g.ctx)
	defer cancel()
	stream, err := grpc_reflection_v1.NewServerReflectionClient(g.conn).ServerReflectionInfo(ctx, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	list := &grpc_reflection_v1.ServerReflectionRequest_ListServices{}
	if err := stream.Send(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: list}); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range answer.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	for _, want := range []string{"sandbox.v1.SandboxExec", "sandbox.v1.SandboxWorker"} {
		if !slices.Contains(names, want) {
			t.Errorf("reflection lists %q, not %s", names, want)
		}
	}
}
