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

	"execworker/admin"
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
	worker, err := startDemoWorker(p.signals, demoConfig(link, token, dir), out)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, worker.stop())
	}()
	say("look inside: curl %s/admin/inflight", worker.url())

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
	printDriving(out, link.RelayAddr, token, worker)
	<-p.signals.first.Done()
	return nil
}

// demoConfig is the worker of the tour.
func demoConfig(link linkSettings, token, dir string) daemon.Config {
	return daemon.Config{
		Relay:         daemon.Relay{Addr: link.RelayAddr, Token: func() (string, error) { return token, nil }},
		SandboxID:     demoID,
		Trust:         "untrusted",
		Slots:         4,
		WorkspaceRoot: filepath.Join(dir, "workspace"),
		Drain:         demoDrain,
		Nice:          10,
		Env:           childEnviron(os.Environ()),
	}
}

// demoWorker is the worker of the tour with its admin API.
type demoWorker struct {
	d     *daemon.Daemon
	api   *adminServer
	ended chan error
}

// startDemoWorker runs a daemon until stop. A second signal ends it at once. Its
// warnings are part of what is shown.
func startDemoWorker(s *signals, config daemon.Config, out *telemetry.LineWriter) (*demoWorker, error) {
	level := new(slog.LevelVar)
	level.Set(slog.LevelWarn)
	log, err := telemetry.NewLogger(out, telemetry.FormatText, level)
	if err != nil {
		return nil, err
	}
	w := &demoWorker{ended: make(chan error, 1)}
	if w.api, err = newAdmin(telemetry.ExportOptions{Traces: "none", Metrics: "none"}, telemetry.TraceOptions{}, log); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	observers := w.api.observers(log)
	config.Observer = observers
	if w.d, err = daemon.New(config); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	socket := filepath.Join(filepath.Dir(config.WorkspaceRoot), "admin.sock")
	options := admin.Options{Observer: observers, Log: log, Level: level}
	if err := w.api.serve(w.d, options, []string{socket}, []string{"127.0.0.1:0"}); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	go func() { w.ended <- w.d.Run(s.second) }()
	return w, nil
}

// url is where a browser or curl finds the worker.
func (w *demoWorker) url() string {
	for _, addr := range w.api.server.Addrs() {
		return "http://" + addr
	}
	return "--unix-socket " + w.api.server.Socket() + " http://localhost"
}

// stop drains the worker and says how it ended.
func (w *demoWorker) stop() error {
	w.d.Drain()
	return errors.Join(<-w.ended, w.api.close())
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
func printDriving(out io.Writer, addr, token string, worker *demoWorker) {
	self, err := os.Executable()
	if err != nil {
		self = "execworker"
	}
	fmt.Fprintf(out, `
The relay and the worker stay up until Ctrl-C. From another terminal:

  export RELAY_ADDR=%[1]s SANDBOX_ID=%[2]s RELAY_EXEC_TOKEN=%[3]s
  %[4]s exec -- 'echo hi; echo oops >&2; exit 7'; echo $?
  %[4]s exec -- 'sleep 1000' &      # and see why it does not end:
  curl %[5]s/admin/inflight
  %[4]s inflight --admin-socket %[6]s
  grpcurl -plaintext -H "authorization: Bearer $RELAY_EXEC_TOKEN" \
    -d '{"sandbox_id":"%[2]s","exec":{"req_id":1,"command":"echo hi","streaming":true}}' \
    %[1]s sandbox.v1.SandboxExec/Exec

`, addr, demoID, token, telemetry.Visible(self), worker.url(), telemetry.Visible(worker.api.server.Socket()))
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
