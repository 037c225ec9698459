package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"execworker/daemon"
	"execworker/telemetry"
)

// serveCommand is the daemon.
type serveCommand struct {
	linkSettings    `group:"The relay:"`
	tokenSettings   `group:"The relay:"`
	sandboxSettings `group:"The worker:"`
	workerSettings  `group:"The worker:"`
	adminSettings   `group:"The admin API:"`
	traceSettings   `group:"Traces:"`
	logSettings     `group:"The log, on stderr:"`
}

// Run serves until a signal. It returns nil after a drain.
func (c *serveCommand) Run(p *program) error {
	if err := c.validate(); err != nil {
		return err
	}
	config := c.config(os.Environ())
	log, level, flush, err := c.logger(p.stderr)
	if err != nil {
		return usage(err)
	}
	defer flush()

	log.Info("worker started", "version", version(), "pid", os.Getpid(), "sandbox_id", c.SandboxID,
		"relay", c.RelayAddr, "tls", bool(c.RelayTLS), "slots", c.WorkerMaxConcurrent)
	c.warn(log)
	err = c.serve(p, config, log, level)
	if err != nil && !errors.Is(err, errSecondSignal) {
		log.Error("worker stopped", "error", err)
		return &exitError{code: exitFailed}
	}
	if err != nil {
		log.Warn("worker stopped at once by a second signal")
		return &exitError{code: exitSignal}
	}
	log.Info("worker stopped")
	return nil
}

// serve runs a daemon and its admin API, which answers until the daemon has
// stopped.
func (c *serveCommand) serve(p *program, config daemon.Config, log *slog.Logger, level *slog.LevelVar) (err error) {
	exports, err := telemetry.ReadExportOptions(os.Getenv)
	if err != nil {
		return usage(err) // validate has said so
	}
	exports.Console = p.stdout
	traces := c.traces(c.SandboxID)
	traces.Tracez = bool(c.AdminDebug)
	api, err := newAdmin(exports, traces, log)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	observers := api.observers(log)
	config.Observer = observers
	d, err := daemon.New(config)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	options := c.options(log, level, p.settings)
	options.Observer = observers
	if err := api.serve(d, options, c.sockets(), c.addrs()); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	err = run(p.signals, d)
	if closed := api.close(); closed != nil {
		log.Warn("admin API not closed cleanly", "error", closed)
	}
	return err
}

// run runs a daemon. The first signal drains it and the second one ends it.
func run(s *signals, d *daemon.Daemon) error {
	drained := make(chan struct{})
	stop := context.AfterFunc(s.first, func() {
		defer close(drained)
		d.Drain()
	})
	err := d.Run(s.second)
	if !stop() {
		<-drained
	}
	return err
}

func (c *serveCommand) validate() error {
	return usage(errors.Join(
		c.linkSettings.problem(),
		c.tokenSettings.problem(),
		c.sandboxSettings.problem(),
		c.workerSettings.problem(),
		c.adminSettings.problem(),
		c.traceSettings.problem(),
		c.logSettings.problem(),
		notUTF8(*c),
	))
}

// warn tells of settings that work and are seldom meant.
func (c *serveCommand) warn(log *slog.Logger) {
	if c.isDevToken() {
		log.Warn("the token is the default one, which everybody knows: set SANDBOX_TOKEN or SANDBOX_TOKEN_FILE")
	}
	if c.isPlainToFar() {
		log.Warn("the token and all output go to the relay unencrypted: set RELAY_TLS=1 unless the network is trusted",
			"relay", c.RelayAddr)
	}
}
