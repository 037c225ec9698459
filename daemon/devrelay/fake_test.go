package devrelay

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	sandboxv1 "execworker/proto/sandbox/v1"
)

// hang is far beyond what any step takes; it only ends a test that hangs.
const hang = 30 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a served relay and one connection to it.
type rig struct {
	relay *Relay
	conn  *grpc.ClientConn
	ctx   context.Context // ends with the test
}

func startRig(t *testing.T, opts Options) *rig {
	t.Helper()
	opts.WorkerToken, opts.ExecToken = "worker-token", "exec-token"
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	l := bufconn.Listen(1 << 20)
	g := &rig{relay: New(opts), ctx: ctx}
	served := make(chan error, 1)
	serveCtx, stop := context.WithCancel(context.Background())
	go func() { served <- g.relay.Serve(serveCtx, l) }()

	conn, err := grpc.NewClient("passthrough:relay",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	g.conn = conn
	t.Cleanup(func() {
		cancel()
		stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		conn.Close()
	})
	return g
}

func bearing(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// fakeWorker is the worker's end of an Attach stream.
type fakeWorker struct {
	grpc.BidiStreamingClient[sandboxv1.WorkerFrame, sandboxv1.ServerFrame]
	t *testing.T
}

func (g *rig) dialWorker(t *testing.T, token string) *fakeWorker {
	t.Helper()
	stream, err := sandboxv1.NewSandboxWorkerClient(g.conn).Attach(bearing(g.ctx, token))
	if err != nil {
		t.Fatal(err)
	}
	return &fakeWorker{stream, t}
}

func (g *rig) attachWorker(t *testing.T, id string) *fakeWorker {
	t.Helper()
	w := g.dialWorker(t, "worker-token")
	w.hello(id)
	if _, err := g.relay.Wait(g.ctx, id); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *fakeWorker) hello(id string) {
	w.t.Helper()
	w.send(&sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_Hello{Hello: &sandboxv1.Hello{SandboxId: id}}})
}

func (w *fakeWorker) send(f *sandboxv1.WorkerFrame) {
	w.t.Helper()
	if err := w.Send(f); err != nil {
		w.t.Fatalf("worker's send: %v", err)
	}
}

func (w *fakeWorker) recv() *sandboxv1.ServerFrame {
	w.t.Helper()
	f, err := w.Recv()
	if err != nil {
		w.t.Fatalf("worker's receive: %v", err)
	}
	return f
}

func (w *fakeWorker) wantExec(id uint64) *sandboxv1.Exec {
	w.t.Helper()
	x := w.recv().GetExec()
	if x == nil || x.GetReqId() != id {
		w.t.Fatalf("worker got %v, want Exec %d", x, id)
	}
	return x
}

func (w *fakeWorker) wantAbort(id uint64) {
	w.t.Helper()
	if f := w.recv(); f.GetAbort() == nil || f.GetAbort().GetReqId() != id {
		w.t.Fatalf("worker got %v, want Abort %d", f, id)
	}
}

func (w *fakeWorker) wantCleanEnd() {
	w.t.Helper()
	if f, err := w.Recv(); err != io.EOF {
		w.t.Fatalf("worker got %v, %v, want a clean end", f, err)
	}
}

func chunk(id uint64, data string) *sandboxv1.WorkerFrame {
	return &sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_Chunk{Chunk: &sandboxv1.Chunk{ReqId: id, Data: []byte(data), Stream: sandboxv1.Stream_STREAM_STDOUT}}}
}

func end(id uint64, code int32) *sandboxv1.WorkerFrame {
	return &sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_End{End: &sandboxv1.End{ReqId: id, ExitCode: code}}}
}

// caller is one Exec call.
type caller struct {
	grpc.ServerStreamingClient[sandboxv1.ExecEvent]
	t      *testing.T
	cancel context.CancelFunc
}

func (g *rig) exec(t *testing.T, sandboxID string, x *sandboxv1.Exec) *caller {
	t.Helper()
	ctx, cancel := context.WithCancel(bearing(g.ctx, "exec-token"))
	t.Cleanup(cancel)
	stream, err := sandboxv1.NewSandboxExecClient(g.conn).Exec(ctx, &sandboxv1.ExecRequest{SandboxId: sandboxID, Exec: x})
	if err != nil {
		t.Fatal(err)
	}
	return &caller{stream, t, cancel}
}

// wantEvents reads events until the call ends, each as "data", "end N" or
// "error text".
func (c *caller) wantEvents(want ...string) {
	c.t.Helper()
	for _, w := range append(want, "EOF") {
		ev, err := c.Recv()
		got := eventText(ev)
		if errors.Is(err, io.EOF) {
			got = "EOF"
		} else if err != nil {
			c.t.Fatalf("call ended with %v, want %q", err, w)
		}
		if got != w {
			c.t.Fatalf("call got %q, want %q", got, w)
		}
	}
}

func (c *caller) wantStatus(code codes.Code) *status.Status {
	c.t.Helper()
	for {
		if _, err := c.Recv(); err != nil {
			s := status.Convert(err)
			if s.Code() != code {
				c.t.Fatalf("call ended with %v, want %v", s, code)
			}
			return s
		}
	}
}

func eventText(ev *sandboxv1.ExecEvent) string {
	switch {
	case ev.GetEnd() != nil:
		return "end " + string('0'+rune(ev.GetEnd().GetExitCode()))
	case ev.GetError() != nil:
		return "error " + ev.GetError().GetMessage()
	}
	return string(ev.GetChunk().GetData())
}
