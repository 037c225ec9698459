package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	sandboxv1 "execworker/proto/sandbox/v1"
)

// Exit codes of exec, besides the command's own.
const (
	exitTimeout = 124
	exitNotRun  = 125
)

const (
	// maxStdin leaves room for the rest of the frame in the 64 MiB that a worker takes.
	maxStdin = 63 << 20
	// abortTime is how long the relay may take to pass on an abort.
	abortTime = 5 * time.Second
)

// execCommand runs one command on a sandbox, as ssh does on a host.
type execCommand struct {
	Command []string `arg:"" name:"command" help:"What bash is to run. Several words are joined with spaces. Put -- before it."`

	Stdin        bool    `help:"Send our own stdin, to its end, before the command starts."`
	Timeout      timeout `placeholder:"TIME" help:"Stop the command after this time, rounded up to seconds. 0: never. (default 0)"`
	WorkspaceKey string  `placeholder:"KEY" help:"Run in the directory of that name in the worker's workspace."`
	Buffered     bool    `help:"Take all output at the end, at most 8 MiB of each stream, instead of as it comes."`

	linkSettings      `group:"The relay:"`
	execTokenSettings `group:"The relay:"`
	tokenSettings     `group:"The relay:"`
	sandboxSettings   `group:"The relay:"`
}

func (c *execCommand) validate() error {
	return usage(errors.Join(
		c.linkSettings.problem(),
		c.execTokenSettings.problem(),
		c.tokenSettings.problem(),
		c.sandboxSettings.problem(),
		c.timeoutProblem(),
		notUTF8(*c),
	))
}

func (c *execCommand) timeoutProblem() error {
	if c.Timeout < 0 {
		return fmt.Errorf("--timeout is %s: want 0 or a time above it", c.Timeout)
	}
	return nil
}

// Run carries the exit code of the command in its error.
func (c *execCommand) Run(p *program) error {
	if err := c.validate(); err != nil {
		return err
	}
	token, err := execToken(c.execTokenSettings, c.tokenSettings)
	if err != nil {
		return usage(err)
	}
	conn, err := dialRelay(c.linkSettings, token)
	if err != nil {
		return notRun(fmt.Errorf("dial %s: %w", c.RelayAddr, err))
	}
	defer conn.Close()
	x, err := c.request(p)
	if err != nil {
		return err
	}
	return c.call(p, caller{client: sandboxv1.NewSandboxExecClient(conn), sandboxID: c.SandboxID}, x)
}

// request makes the Exec frame.
func (c *execCommand) request(p *program) (*sandboxv1.Exec, error) {
	x := &sandboxv1.Exec{
		ReqId:        newReqID(),
		Command:      strings.Join(c.Command, " "),
		TimeoutS:     uint32((time.Duration(c.Timeout) + time.Second - 1) / time.Second),
		Streaming:    !c.Buffered,
		WorkspaceKey: c.WorkspaceKey,
	}
	if !c.Stdin {
		return x, nil
	}
	read := make(chan error, 1)
	go func() {
		var err error
		x.Stdin, err = io.ReadAll(io.LimitReader(p.stdin, maxStdin+1))
		read <- err
	}()
	select {
	case err := <-read:
		if err != nil {
			return nil, notRun(fmt.Errorf("read stdin: %w", err))
		}
	case <-p.signals.first.Done(): // the read may never end
		return nil, &exitError{code: exitSignal}
	}
	if len(x.Stdin) > maxStdin {
		return nil, notRun(fmt.Errorf("read stdin: it is more than %d MiB", maxStdin>>20))
	}
	return x, nil
}

// call runs x. The first signal, or an output that cannot be written, aborts it,
// and then its terminal frame is waited for; the second signal leaves at once.
// Nothing but a healthy exec waits for a reader who does not read.
func (c *execCommand) call(p *program, relay caller, x *sandboxv1.Exec) error {
	ctx, leave := context.WithCancel(p.signals.second)
	defer leave()
	abort := sync.OnceFunc(func() {
		patience, cancel := context.WithTimeout(ctx, abortTime)
		defer cancel()
		if err := relay.abort(patience, x.GetReqId()); err != nil && ctx.Err() == nil {
			p.say("abort: %s", err)
		}
	})
	out := newOutput(p.stdout, p.stderr, func() { go abort() })
	stopAbort := context.AfterFunc(p.signals.first, func() {
		out.hurry()
		patience := time.After(abortTime)
		abort()
		select {
		case <-patience:
			if out.stuck(stalled) {
				leave()
			}
		case <-ctx.Done():
		}
	})
	defer stopAbort()
	watch, stopWatch := context.WithCancel(ctx)
	defer stopWatch()
	if x.GetTimeoutS() > 0 {
		go out.hurryAfter(watch, time.Duration(x.GetTimeoutS())*time.Second, abortTime)
	}

	end, failure, err := relay.exec(ctx, x, out.put)
	if stopAbort() { // there is nothing to abort any more
		defer context.AfterFunc(p.signals.first, out.hurry)()
	}
	if !isTimeout(failure) {
		stopWatch()
	}
	lost, broken := out.close(ctx)
	interrupted := p.signals.first.Err() != nil
	switch {
	case ctx.Err() != nil:
		return &exitError{code: exitSignal}
	case broken != nil && !isBrokenPipe(broken) && !interrupted:
		return notRun(fmt.Errorf("exec: %w", broken))
	case err != nil:
		return notRun(fmt.Errorf("relay %s: %w", c.RelayAddr, err))
	case lost > 0 && broken == nil && interrupted:
		return &exitError{code: exitSignal}
	case lost > 0 && broken == nil:
		return &exitError{code: exitTimeout, err: fmt.Errorf("timeout:%d, and nobody reads: %d bytes of output are lost", x.GetTimeoutS(), lost)}
	case failure != nil:
		return failed(failure)
	}
	if n := out.toNowhere(); n > 0 {
		p.say("exec: write stdout: it was closed, or is %s open for reading too: %d bytes went nowhere", os.DevNull, n)
	}
	if broken == nil {
		if err := out.finish(); err != nil {
			return notRun(fmt.Errorf("exec: %w", err))
		}
	}
	return c.ended(p, end, broken != nil || interrupted)
}

// ended is the exit code of an End. aborted says that we asked for that.
func (c *execCommand) ended(p *program, end *sandboxv1.End, aborted bool) error {
	if end.GetTruncated() {
		p.say("stdout was longer than is kept; the rest is cut")
	}
	switch code := end.GetExitCode(); {
	case code == 0:
		return nil
	case code > 0 && code <= 255:
		return &exitError{code: int(code)}
	case code > 255:
		return notRun(fmt.Errorf("the worker gave an exit code that no command has: %d", code))
	case aborted:
		return &exitError{code: exitSignal}
	}
	return &exitError{code: exitSignal, err: errors.New("the command died of a signal, or somebody else aborted it")}
}

// failed is the exit code of an ExecError.
func failed(e *sandboxv1.ExecError) error {
	if isTimeout(e) {
		return &exitError{code: exitTimeout, err: errors.New(e.GetMessage())}
	}
	return notRun(errors.New(e.GetMessage()))
}

func isTimeout(e *sandboxv1.ExecError) bool { return strings.HasPrefix(e.GetMessage(), "timeout:") }

// notRun marks what kept the command from being run.
func notRun(err error) error { return &exitError{code: exitNotRun, err: err} }
