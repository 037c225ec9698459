package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"execworker/daemon"
	"execworker/telemetry"

	"golang.org/x/net/http/httpproxy"
)

const (
	// maxToken is more than a header may hold at most relays.
	maxToken = 16 << 10
	// maxPEMFile is more than any bundle of certificates; a system's has 0.3 MiB.
	maxPEMFile = 16 << 20
)

// config is what the daemon takes, from settings without a problem. environ is
// the worker's own. The observer is left to the caller.
func (c *serveCommand) config(environ []string) daemon.Config {
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
		Slots:          int(c.WorkerMaxConcurrent),
		WorkspaceRoot:  filepath.Clean(c.WorkspaceRoot),
		WorkspaceIdle:  time.Duration(c.WorkspaceIdle),
		Drain:          time.Duration(c.ExecworkerDrain),
		SweepSurvivors: c.ExecworkerSurvivors == "sweep",
		Nice:           int(c.ExecworkerNice),
		HashOutput:     bool(c.ExecworkerOutputHash),
		Env:            childEnviron(environ),
	}
}

// token is the worker's secret as it is now. A file may end in a newline, as
// editors and echo leave it.
func (s tokenSettings) token() (string, error) {
	if s.SandboxTokenFile == "" {
		token := cmp.Or(s.SandboxToken, devToken)
		return token, tokenProblem("SANDBOX_TOKEN", token)
	}
	text, err := readRegular("SANDBOX_TOKEN_FILE", s.SandboxTokenFile, maxToken+len("\r\n"))
	if err != nil {
		return "", err
	}
	token := strings.TrimRight(string(text), "\r\n")
	return token, tokenProblem("SANDBOX_TOKEN_FILE", token)
}

// readRegular reads the file that the variable name names, and nothing but a
// file: a FIFO or a device could hold up the program, with its signals, for
// ever. Opening one does not block either. Links are followed: Kubernetes mounts
// secrets as links.
func readRegular(name, path string, most int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %s is no regular file", name, path)
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", name, err)
	}
	if len(text) > most {
		return nil, fmt.Errorf("%s is too large, %d bytes at most: name another file", name, most)
	}
	return text, nil
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
// left, for at most flushTime. level can be changed while it is in use.
func (s logSettings) logger(stderr io.Writer) (log *slog.Logger, level *slog.LevelVar, flush func(), err error) {
	level = new(slog.LevelVar)
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return nil, nil, nil, fmt.Errorf("LOG_LEVEL: %w", err)
	}
	lines := telemetry.NewLineWriter(stderr)
	flush = func() { flushWithin(lines) }
	log, err = telemetry.NewLogger(lines, s.LogFormat, level)
	if err != nil {
		flush()
		return nil, nil, nil, err
	}
	return log, level, flush, nil
}
