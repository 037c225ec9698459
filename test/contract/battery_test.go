package contract

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"execworker/daemon/devrelay"
	"execworker/test/relaytest"

	sandboxv1 "execworker/proto/sandbox/v1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// caller asks a relay for execs, as an agent does.
type caller struct {
	client  sandboxv1.SandboxExecClient
	token   string
	sandbox string
	dir     string // on the sandbox, for files of the battery
}

// answer is what came of one exec.
type answer struct {
	stdout, stderr bytes.Buffer
	code           int32
	err            string
}

// exec asks and waits for the answer; started is called at the first output.
func (c caller) exec(t *testing.T, e *sandboxv1.Exec, started func()) *answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := c.client.Exec(c.authorized(ctx), &sandboxv1.ExecRequest{SandboxId: c.sandbox, Exec: e})
	if err != nil {
		t.Fatal(err)
	}
	var a answer
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return &a
		}
		if err != nil {
			t.Fatalf("exec %d: %v", e.ReqId, err)
		}
		switch e := event.Event.(type) {
		case *sandboxv1.ExecEvent_Chunk:
			if started != nil {
				started()
				started = nil
			}
			if e.Chunk.Stream == sandboxv1.Stream_STREAM_STDERR {
				a.stderr.Write(e.Chunk.Data)
			} else {
				a.stdout.Write(e.Chunk.Data)
			}
		case *sandboxv1.ExecEvent_End:
			a.code = e.End.ExitCode
		case *sandboxv1.ExecEvent_Error:
			a.err = e.Error.Message
		}
	}
}

func (c caller) authorized(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.token)
}

func (c caller) run(t *testing.T, command string, stdin []byte) *answer {
	t.Helper()
	return c.exec(t, &sandboxv1.Exec{ReqId: reqID(), Command: command, Stdin: stdin, Streaming: true, TimeoutS: 30}, nil)
}

// reqID is random, since a live relay's sandbox remembers earlier ones, and
// below 2^53, for callers in JavaScript.
func reqID() uint64 { return rand.Uint64N(1<<53-1) + 1 }

func (a *answer) want(t *testing.T, code int32, stdout, stderr string) {
	t.Helper()
	if a.err != "" || a.code != code || a.stdout.String() != stdout || a.stderr.String() != stderr {
		t.Errorf("error %q, exit code %d, stdout %.100q, stderr %.100q; want %d, %.100q, %.100q",
			a.err, a.code, a.stdout.String(), a.stderr.String(), code, stdout, stderr)
	}
}

// battery is the work of an agent: read, write, bash, grep, abort.
func battery(t *testing.T, c caller) {
	content := make([]byte, 100_000)
	for i := range content {
		content[i] = byte(rand.IntN(256))
	}
	encoded := base64.StdEncoding.EncodeToString(content)
	t.Run("write", func(t *testing.T) {
		c.run(t, "mkdir -p "+c.dir+" && base64 -d > "+c.dir+"/file", []byte(encoded)).want(t, 0, "", "")
	})
	t.Run("read", func(t *testing.T) {
		c.run(t, "base64 -w0 "+c.dir+"/file", nil).want(t, 0, encoded, "")
	})
	t.Run("bash", func(t *testing.T) {
		c.run(t, "echo out; echo err >&2; exit 7", nil).want(t, 7, "out\n", "err\n")
	})
	t.Run("grep", func(t *testing.T) {
		c.run(t, "cd "+c.dir+" && printf 'hay\\nneedle\\nhay\\n' > hay && grep -rn needle hay; grep -c nothing hay", nil).
			want(t, 1, "2:needle\n0\n", "")
	})
	t.Run("abort", func(t *testing.T) {
		id := reqID()
		a := c.exec(t, &sandboxv1.Exec{ReqId: id, Command: "echo started; sleep 300", Streaming: true}, func() {
			if _, err := c.client.Abort(c.authorized(t.Context()), &sandboxv1.AbortRequest{SandboxId: c.sandbox, ReqId: id}); err != nil {
				t.Error(err)
			}
		})
		a.want(t, -1, "started\n", "")
	})
	c.run(t, "rm -rf "+c.dir, nil).want(t, 0, "", "")
}

func TestBatteryThroughTheDevelopmentRelay(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	relay := devrelay.New(devrelay.Options{WorkerToken: "worker-token", ExecToken: "exec-token"})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- relay.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	w := relaytest.StartWorker(t, relaytest.New(t), relaytest.Env{"RELAY_ADDR": l.Addr().String(), "SANDBOX_TOKEN": "worker-token", "SANDBOX_ID": "battery"})
	if _, err := relay.Wait(t.Context(), "battery"); err != nil {
		t.Fatal(err)
	}
	battery(t, caller{client: dial(t, l.Addr().String(), insecure.NewCredentials()), token: "exec-token", sandbox: "battery", dir: w.Dir + "/battery"})
}

// TestLiveRelay runs the battery against whatever relay stands at RELAY_ADDR,
// with a sandbox attached as SANDBOX_ID, through its SandboxExec service.
func TestLiveRelay(t *testing.T) {
	if os.Getenv("SH_LIVE_RELAY") != "1" {
		t.Skip("needs a relay: set SH_LIVE_RELAY=1, RELAY_ADDR, SANDBOX_ID and RELAY_EXEC_TOKEN")
	}
	creds := insecure.NewCredentials()
	if on := os.Getenv("RELAY_TLS"); on == "1" || strings.EqualFold(on, "true") {
		config := &tls.Config{}
		if file := os.Getenv("RELAY_CA_FILE"); file != "" {
			pem, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			config.RootCAs = x509.NewCertPool()
			config.RootCAs.AppendCertsFromPEM(pem)
		}
		creds = credentials.NewTLS(config)
	}
	setting := func(name, otherwise string) string {
		if v := os.Getenv(name); v != "" {
			return v
		}
		return otherwise
	}
	battery(t, caller{
		client:  dial(t, setting("RELAY_ADDR", "localhost:8443"), creds),
		token:   setting("RELAY_EXEC_TOKEN", setting("SANDBOX_TOKEN", "dev-token")),
		sandbox: setting("SANDBOX_ID", "sbx-laptop-1"),
		dir:     "/tmp/" + relaytest.Marker(),
	})
}

func dial(t *testing.T, addr string, creds credentials.TransportCredentials) sandboxv1.SandboxExecClient {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return sandboxv1.NewSandboxExecClient(conn)
}
