// Command execworker runs the commands that come down the wire from a relay, in
// the sandbox it lives in. This package wires the parts together and is the only
// place that reads settings.
//
//	main.go      signals, command line, exit code
//	settings.go  every setting: variable, flag, default, meaning
//	validate.go  what is no good value, and the way out
//	address.go   what is no address of a relay or proxy
//	config.go    settings made into what the daemon takes
//	environ.go   what of our environment a command gets to see
//	help.go      --help and --version
//	serve.go     the daemon
//	relay.go     the development relay
//	exec.go      one command through a relay
//	output.go    its output to our own streams
//	demo*.go     the tour
//	admin*.go    the admin API of a worker: settings, wiring
//	client*.go   the commands that ask it
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"execworker/admin"
	"execworker/telemetry"
)

func main() {
	p := &program{
		signals: catchSignals(), // first: what is not caught yet would just end us
		stdin:   os.Stdin,
		stdout:  os.Stdout,
		stderr:  os.Stderr,
	}
	os.Exit(p.run(os.Args[1:]))
}

// program is what a command has of the world.
type program struct {
	signals *signals
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer

	settings []admin.Flag // of the chosen command
}

// commands is the command line. Each command has a Run method in its own file.
type commands struct {
	Serve serveCommand `cmd:"" help:"Run commands for a relay. The entrypoint of an image."`
	Relay relayCommand `cmd:"" help:"Serve a relay for development on this machine."`
	Exec  execCommand  `cmd:"" help:"Run one command on a sandbox, through a relay."`
	Demo  demoCommand  `cmd:"" help:"Start a relay and a worker, and show what they do."`

	Inflight    inflightCommand    `cmd:"" help:"List what is in flight, and why."`
	Why         whyCommand         `cmd:"" help:"Say why one exec is stuck, or how it ended."`
	Abort       abortCommand       `cmd:"" help:"Stop an exec, or what it left running."`
	Execs       execsCommand       `cmd:"" help:"List the receipts of the last execs that ended."`
	Survivors   survivorsCommand   `cmd:"" help:"List what commands left running."`
	Connections connectionsCommand `cmd:"" help:"List attempts and sessions with the relay."`
	Status      statusCommand      `cmd:"" help:"Show the worker as a whole."`
	Health      healthCommand      `cmd:"" help:"Say whether the worker is ready: exit code 0 or 1."`

	Version kong.VersionFlag `help:"Print the version and exit."`
}

// run carries out one command line and returns the exit code.
func (p *program) run(args []string) int {
	unsetEmpty()
	var all commands
	parser, err := newParser(&all, p)
	if err != nil {
		return p.fail(err)
	}
	if len(args) == 0 {
		parser.Stdout = p.stderr
		parse(parser, []string{"--help"})
		return exitUsage
	}
	chosen, err := parse(parser, args)
	if err == nil && chosen != nil {
		err = refuseSecretFlags(chosen)
	}
	switch {
	case err != nil:
		return p.fail(usage(fmt.Errorf("%w (see: execworker --help)", err)))
	case chosen == nil: // it was --help or --version
		return exitOK
	}
	p.settings = settingsInUse(chosen)
	return p.fail(chosen.Run(p))
}

// exitError carries the exit code of an error that is not simply 1. One without
// an error has nothing to say.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return fmt.Sprint(e.err) }
func (e *exitError) Unwrap() error { return e.err }

// usage marks bad settings and bad command lines.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code: exitUsage, err: err}
}

// fail says what went wrong, if anything did, and returns the exit code.
func (p *program) fail(err error) int {
	if err == nil {
		return exitOK
	}
	code := exitFailed
	if exit, ok := errors.AsType[*exitError](err); ok {
		code = exit.code
		if exit.err == nil {
			return code
		}
	}
	p.say("%s", err)
	return code
}

// say writes to stderr, a line for each of several problems, and waits for no
// longer than flushTime for somebody to read it.
func (p *program) say(format string, args ...any) {
	out := telemetry.NewLineWriter(p.stderr)
	defer flushWithin(out)
	for line := range strings.SplitSeq(fmt.Sprintf(format, args...), "\n") {
		fmt.Fprintf(out, "execworker: %s\n", telemetry.Visible(line))
	}
}
