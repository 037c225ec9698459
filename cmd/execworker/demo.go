package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"

	"execworker/daemon"
	"execworker/daemon/devrelay"
	sandboxv1 "execworker/proto/sandbox/v1"
	"execworker/telemetry"
)

const (
	demoID = "sbx-demo"
	// demoAttach is how long the worker may take to attach.
	demoAttach = 15 * time.Second
	// demoDrain is what commands that the visitor left running get at the end.
	demoDrain = 2 * time.Second
)

// demoCommand starts a relay and a worker in this process, on loopback, and
// sends the worker real commands through the relay. What it prints as an answer
// is what came back, and a verdict is what it found out beside that: in files,
// and in the kernel's process table.
type demoCommand struct {
	Once bool `help:"Exit after the tour: 0 if every step came out right, else 1."`
}

// Run gives the tour, and then stays up until a signal unless told otherwise.
func (c *demoCommand) Run(p *program) (err error) {
	dir, err := os.MkdirTemp("", "execworker-demo-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() {
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the worker: %w", err)
	}
	link := linkSettings{RelayAddr: listener.Addr().String()}
	token := rand.Text()

	out := telemetry.NewLineWriter(p.stdout)
	defer flushWithin(out)
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }

	attached := make(chan struct{}, 1)
	relay := devrelay.New(devrelay.Options{WorkerToken: token, OnEvent: demoPrinter(out, attached)})
	relayCtx, stopRelay := context.WithCancel(context.Background())
	relayEnded := make(chan error, 1)
	go func() { relayEnded <- relay.Serve(relayCtx, listener) }()
	defer func() {
		stopRelay()
		err = errors.Join(err, <-relayEnded)
	}()
	say("relay on %s, worker %s in the same process, folder %s", link.RelayAddr, demoID, telemetry.Visible(dir))

	conn, err := dialRelay(link, token)
	if err != nil {
		return fmt.Errorf("dial %s: %w", link.RelayAddr, err)
	}
	defer conn.Close()
	config, err := demoConfig(link, token, dir, out)
	if err != nil {
		return err
	}
	stopWorker, err := startWorker(p.signals, config)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, stopWorker())
	}()

	t := newTour(p, conn, relay, attached, dir, say)
	if err := t.waitAttached(p.signals.first); err != nil {
		return err
	}
	wrong := t.run(p.signals.first, tourSteps)
	switch {
	case p.signals.first.Err() != nil:
		return &exitError{code: exitSignal}
	case c.Once && len(wrong) > 0:
		return fmt.Errorf("demo: not right: %s", strings.Join(wrong, ", "))
	case c.Once:
		return nil
	}
	printDriving(out, link.RelayAddr, token)
	<-p.signals.first.Done()
	return nil
}

// demoConfig is the worker of the tour. Its warnings are part of what is shown.
func demoConfig(link linkSettings, token, dir string, out *telemetry.LineWriter) (daemon.Config, error) {
	log, err := telemetry.NewLogger(out, telemetry.FormatText, slog.LevelWarn)
	if err != nil {
		return daemon.Config{}, err
	}
	return daemon.Config{
		Relay:         daemon.Relay{Addr: link.RelayAddr, Token: func() (string, error) { return token, nil }},
		SandboxID:     demoID,
		Trust:         "untrusted",
		Slots:         4,
		WorkspaceRoot: filepath.Join(dir, "workspace"),
		Drain:         demoDrain,
		Nice:          10,
		Env:           childEnviron(os.Environ()),
		Observer:      telemetry.NewLogObserver(log),
	}, nil
}

// startWorker runs a daemon until stop is called, which drains it and says how
// it ended. A second signal ends it at once.
func startWorker(s *signals, config daemon.Config) (stop func() error, err error) {
	d, err := daemon.New(config)
	if err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Run(s.second) }()
	return func() error {
		d.Drain()
		return <-ended
	}, nil
}

// demoPrinter prints the frames, and tells attached of each worker that comes.
func demoPrinter(out io.Writer, attached chan<- struct{}) func(devrelay.Event) {
	return func(e devrelay.Event) {
		if e.Kind == devrelay.Attached {
			select {
			case attached <- struct{}{}:
			default:
			}
		}
		if _, isHeartbeat := e.Received.GetMsg().(*sandboxv1.WorkerFrame_Heartbeat); !isHeartbeat {
			fmt.Fprintf(out, "    %s\n", eventLine(e))
		}
	}
}

// printDriving says how to go on by hand. The token is for this run and this
// machine only.
func printDriving(out io.Writer, addr, token string) {
	self, err := os.Executable()
	if err != nil {
		self = "execworker"
	}
	fmt.Fprintf(out, `
The relay and the worker stay up until Ctrl-C. From another terminal:

  export RELAY_ADDR=%[1]s SANDBOX_ID=%[2]s RELAY_EXEC_TOKEN=%[3]s
  %[4]s exec -- 'echo hi; echo oops >&2; exit 7'; echo $?
  %[4]s exec -- 'sleep 1000'        # and Ctrl-C
  grpcurl -plaintext -H "authorization: Bearer $RELAY_EXEC_TOKEN" \
    -d '{"sandbox_id":"%[2]s","exec":{"req_id":1,"command":"echo hi","streaming":true}}' \
    %[1]s sandbox.v1.SandboxExec/Exec

`, addr, demoID, token, telemetry.Visible(self))
}

// newTour makes a tour of the worker that attaches to relay.
func newTour(p *program, conn grpc.ClientConnInterface, relay *devrelay.Relay, attached <-chan struct{}, dir string, say func(string, ...any)) *tour {
	return &tour{
		caller:   caller{client: sandboxv1.NewSandboxExecClient(conn), sandboxID: demoID},
		relay:    relay,
		attached: attached,
		dir:      dir,
		nonce:    strings.ToLower(rand.Text()[:8]),
		say:      say,
	}
}
