package relaytest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	sandboxv1 "execworker/proto/sandbox/v1"
)

// The test binary, called as "serve", is a small worker: it dials again at once,
// runs commands with os/exec and sends what they print in one chunk. A command
// "frames: …" sends those frames in place of running anything.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		fakeServe()
		return
	}
	var err error
	if fakeDir, err = os.MkdirTemp("", "relaytest-fake-"); err != nil {
		panic(err)
	}
	code := RunTests(m)
	os.RemoveAll(fakeDir)
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var fakeDir string // of a copy of this binary

func fakeServe() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Fprintln(os.Stderr, `{"msg":"fake worker started"}`)
	for ctx.Err() == nil {
		if err := fakeAttach(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "{%q:%q}\n", "attach", err)
			time.Sleep(20 * time.Millisecond) // the fake's back-off
		}
	}
}

type fake struct {
	stream grpc.BidiStreamingClient[sandboxv1.WorkerFrame, sandboxv1.ServerFrame]
	mu     sync.Mutex
}

func fakeAttach(ctx context.Context) error {
	creds := insecure.NewCredentials()
	if ca := os.Getenv("RELAY_CA_FILE"); ca != "" {
		pool := x509.NewCertPool()
		text, _ := os.ReadFile(ca)
		pool.AppendCertsFromPEM(text)
		pair, err := tls.LoadX509KeyPair(os.Getenv("RELAY_CERT_FILE"), os.Getenv("RELAY_KEY_FILE"))
		if err != nil {
			return err
		}
		creds = credentials.NewTLS(&tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}})
	}
	conn, err := grpc.NewClient(os.Getenv("RELAY_ADDR"), grpc.WithTransportCredentials(creds))
	if err != nil {
		return err
	}
	defer conn.Close()
	md := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+os.Getenv("SANDBOX_TOKEN"))
	stream, err := sandboxv1.NewSandboxWorkerClient(conn).Attach(md)
	if err != nil {
		return err
	}
	f := &fake{stream: stream}
	f.send(&sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_Hello{Hello: &sandboxv1.Hello{SandboxId: os.Getenv("SANDBOX_ID")}}})
	stopped := context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		_ = stream.CloseSend()
	})
	defer stopped()
	for {
		in, err := stream.Recv()
		if err != nil {
			return err
		}
		if x := in.GetExec(); x != nil {
			go f.run(x)
		}
	}
}

func (f *fake) send(w *sandboxv1.WorkerFrame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.stream.Send(w)
}

func (f *fake) run(x *sandboxv1.Exec) {
	if list, scripted := strings.CutPrefix(x.GetCommand(), "frames:"); scripted {
		for _, name := range strings.Fields(list) {
			f.send(scriptedFrame(x.GetReqId(), name))
		}
		return
	}
	cmd := exec.Command("bash", "-c", x.GetCommand())
	cmd.Stdin = strings.NewReader(string(x.GetStdin()))
	out, err := cmd.Output()
	if len(out) > 0 {
		f.send(&sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_Chunk{Chunk: &sandboxv1.Chunk{ReqId: x.GetReqId(), Data: out, Stream: sandboxv1.Stream_STREAM_STDOUT}}})
	}
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		f.send(&sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_Error{Error: &sandboxv1.ExecError{ReqId: x.GetReqId(), Message: "spawn: " + err.Error()}}})
		return
	}
	f.send(&sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_End{End: &sandboxv1.End{ReqId: x.GetReqId(), ExitCode: int32(cmd.ProcessState.ExitCode())}}})
}

func scriptedFrame(id uint64, name string) *sandboxv1.WorkerFrame {
	switch name {
	case "hello":
		return &sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_Hello{Hello: &sandboxv1.Hello{}}}
	case "heartbeat":
		return &sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_Heartbeat{}}
	case "end":
		return &sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_End{End: &sandboxv1.End{ReqId: id}}}
	case "error":
		return &sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_Error{Error: &sandboxv1.ExecError{ReqId: id, Message: "timeout:1"}}}
	case "stray":
		return &sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_End{End: &sandboxv1.End{ReqId: id + 1000}}}
	case "big":
		return &sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_Chunk{Chunk: &sandboxv1.Chunk{ReqId: id, Data: make([]byte, maxChunk+1)}}}
	case "huge":
		return &sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_Chunk{Chunk: &sandboxv1.Chunk{ReqId: id, Data: make([]byte, 4<<20)}}}
	case "err":
		return &sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_Chunk{Chunk: &sandboxv1.Chunk{ReqId: id, Data: []byte("err"), Stream: sandboxv1.Stream_STREAM_STDERR}}}
	}
	return &sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_Chunk{Chunk: &sandboxv1.Chunk{ReqId: id, Data: []byte(name), Stream: sandboxv1.Stream_STREAM_STDOUT}}}
}

// startFake starts a copy of this test binary, where every user may read it, as
// the worker.
func startFake(t *testing.T, r *Relay, env Env, opts ...WorkerOption) *Worker {
	t.Helper()
	t.Setenv("EXECWORKER_BIN", fakeBinary())
	return StartWorker(t, r, env, opts...)
}

var fakeBinary = sync.OnceValue(func() string {
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	path := fakeDir + "/fake"
	if err := errors.Join(os.Chmod(fakeDir, 0o755), os.WriteFile(path, text, 0o755)); err != nil {
		panic(err)
	}
	return path
})

// takeFaults returns the faults and forgets them, so that they do not fail t.
func (r *Relay) takeFaults() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	faults := strings.Join(r.faults, "\n")
	r.faults = nil
	return faults
}
