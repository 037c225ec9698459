package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"execworker/daemon/devrelay"
	"execworker/telemetry"
)

// relayCommand is the development relay.
type relayCommand struct {
	listenSettings    `group:"The relay:"`
	tokenSettings     `group:"The relay:"`
	execTokenSettings `group:"The relay:"`
	Frames            bool `help:"Print every frame."`
}

func (c *relayCommand) validate() error {
	return usage(errors.Join(
		c.listenSettings.problem(),
		c.tokenSettings.problem(),
		c.execTokenSettings.problem(),
		c.openToAll(),
		notUTF8(*c),
	))
}

// openToAll refuses to let a whole network run commands with a token that
// everybody knows.
func (c *relayCommand) openToAll() error {
	if c.isDevToken() && !isLoopback(c.RelayListen) {
		return fmt.Errorf("RELAY_LISTEN is %q, which others can reach, and the token is %q: set SANDBOX_TOKEN, or listen on 127.0.0.1",
			c.RelayListen, devToken)
	}
	return nil
}

// Run serves until a signal, and then returns nil.
func (c *relayCommand) Run(p *program) error {
	if err := c.validate(); err != nil {
		return err
	}
	workerToken, err := c.token()
	if err != nil {
		return usage(err)
	}
	callerToken, err := execToken(c.execTokenSettings, c.tokenSettings)
	if err != nil {
		return usage(err)
	}
	listener, err := net.Listen("tcp", c.RelayListen)
	if err != nil {
		return fmt.Errorf("listen for workers: %w", err)
	}
	out := telemetry.NewLineWriter(p.stdout)
	defer flushWithin(out)
	relay := devrelay.New(devrelay.Options{
		WorkerToken: workerToken,
		ExecToken:   callerToken,
		OnEvent:     c.printer(out),
	})
	printUse(out, listener.Addr().String())
	return relay.Serve(p.signals.first, listener)
}

// printer prints who comes and goes, and every frame if asked.
func (c *relayCommand) printer(out io.Writer) func(devrelay.Event) {
	return func(e devrelay.Event) {
		isFrame := e.Kind == devrelay.Sent || e.Kind == devrelay.Received
		if !isFrame || c.Frames {
			fmt.Fprintln(out, eventLine(e))
		}
	}
}

// printUse tells a stranger what to type next. It names variables and not their
// values, since some of them are secrets.
func printUse(out io.Writer, addr string) {
	self, err := os.Executable()
	if err != nil {
		self = "execworker"
	}
	fmt.Fprintf(out, `relay on %[1]s: workers attach here, callers ask here

  a worker:     RELAY_ADDR=%[1]s %[2]s serve
  a command:    RELAY_ADDR=%[1]s %[2]s exec -- 'echo hi; uname -a'
  with grpcurl: grpcurl -plaintext -H "authorization: Bearer ${RELAY_EXEC_TOKEN:-${SANDBOX_TOKEN:-dev-token}}" \
                  -d '{"sandbox_id":"sbx-laptop-1","exec":{"req_id":1,"command":"echo hi","streaming":true}}' \
                  %[1]s sandbox.v1.SandboxExec/Exec

`, addr, telemetry.Visible(self))
}

// flushTime is how long what is left of our own output may take.
const flushTime = time.Second

// flushWithin passes on what is left of out, for at most flushTime.
func flushWithin(out *telemetry.LineWriter) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	out.Close(ctx) // an error says that nobody reads, so there is nobody to tell
}
