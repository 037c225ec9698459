package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"execworker/daemon"
	"execworker/telemetry"

	"golang.org/x/net/http/httpproxy"
)

// maxTokenFile is more than any token takes; a larger file is a wrong one.
const maxTokenFile = 16 << 10

// config is what the daemon takes, from settings without a problem. environ is
// the worker's own. The observer is left to the caller.
func (c *serveCommand) config(environ []string) (daemon.Config, error) {
	root, err := filepath.Abs(c.WorkspaceRoot)
	if err != nil {
		return daemon.Config{}, fmt.Errorf("WORKSPACE_ROOT: %w", err)
	}
	return daemon.Config{
		Relay: daemon.Relay{
			Addr:     c.RelayAddr,
			TLS:      bool(c.RelayTLS),
			CAFile:   c.RelayCAFile,
			CertFile: c.RelayCertFile,
			KeyFile:  c.RelayKeyFile,
			Token:    c.token,
			Proxy:    httpproxy.FromEnvironment().ProxyFunc(),
		},
		SandboxID:      c.SandboxID,
		Image:          c.SandboxImage,
		Trust:          c.SandboxTrust,
		Labels:         c.WorkerLabels,
		Slots:          c.WorkerMaxConcurrent,
		WorkspaceRoot:  root,
		WorkspaceIdle:  time.Duration(c.WorkspaceIdle),
		Drain:          time.Duration(c.ExecworkerDrain),
		SweepSurvivors: c.ExecworkerSurvivors == "sweep",
		Nice:           c.ExecworkerNice,
		Env:            childEnviron(environ),
	}, nil
}

// token is the worker's secret as it is now. A file may end in a newline, as
// editors and echo leave it.
func (s tokenSettings) token() (string, error) {
	if s.SandboxTokenFile == "" {
		token := cmp.Or(s.SandboxToken, devToken)
		return token, tokenProblem("SANDBOX_TOKEN", token)
	}
	f, err := os.Open(s.SandboxTokenFile)
	if err != nil {
		return "", fmt.Errorf("SANDBOX_TOKEN_FILE cannot be read: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return "", fmt.Errorf("SANDBOX_TOKEN_FILE cannot be read: %w", err)
	}
	if len(text) > maxTokenFile {
		return "", errors.New("SANDBOX_TOKEN_FILE is too large for a token: name another file")
	}
	token := strings.TrimRight(string(text), "\r\n")
	return token, tokenProblem("SANDBOX_TOKEN_FILE", token)
}

// execToken is the callers' secret: their own, or that of the worker.
func execToken(own execTokenSettings, worker tokenSettings) (string, error) {
	if own.RelayExecToken != "" {
		return own.RelayExecToken, nil
	}
	return worker.token()
}

// isDevToken says whether the secret is the one that everybody knows.
func (s tokenSettings) isDevToken() bool {
	token, err := s.token()
	return err == nil && token == devToken
}

// isPlainToFar says whether the token and all output cross a network unprotected.
func (s linkSettings) isPlainToFar() bool {
	return !bool(s.RelayTLS) && !isLoopback(s.RelayAddr)
}

// isLoopback is about the name as it is written; no name is looked up.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// logger writes to stderr without ever waiting for it. flush passes on what is
// left, for at most flushTime.
func (s logSettings) logger(stderr io.Writer) (log *slog.Logger, flush func(), err error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return nil, nil, fmt.Errorf("LOG_LEVEL: %w", err)
	}
	lines := telemetry.NewLineWriter(stderr)
	flush = func() { flushWithin(lines) }
	log, err = telemetry.NewLogger(lines, s.LogFormat, level)
	if err != nil {
		flush()
		return nil, nil, err
	}
	return log, flush, nil
}
