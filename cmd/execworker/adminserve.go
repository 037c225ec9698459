package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"execworker/admin"
	"execworker/daemon"
	"execworker/daemon/observe"
	"execworker/telemetry"
)

// adminCloseTime is what the last answers of the admin API get.
const adminCloseTime = 2 * time.Second

// adminServer is the admin API of one worker, wired up. It is the last to stop,
// so that it can say what the worker is waiting for.
type adminServer struct {
	feed     *admin.Feed
	exports  *telemetry.Exports
	instance string // of this run of the program
	server   *admin.Server
	served   chan error

	watch    sync.WaitGroup // who looks for execs that do not end
	endWatch context.CancelFunc
}

// newAdmin makes the parts that observe. They are told of everything, so they
// must be there before the daemon is.
func newAdmin(e telemetry.ExportOptions, t telemetry.TraceOptions, log *slog.Logger) (*adminServer, error) {
	a := &adminServer{feed: admin.NewFeed(), instance: strings.ToLower(rand.Text()), served: make(chan error, 1)}
	t.CommandName = admin.CommandName
	var err error
	a.exports, err = telemetry.NewExports(e, t, version(), a.instance, log)
	return a, err
}

// observers are these parts and the log. Traces come first, so that the others
// are told with the ids in their context.
func (a *adminServer) observers(log *slog.Logger) (all observe.Observers) {
	if a.exports.Spans != nil {
		all = append(all, a.exports.Spans)
	}
	return append(all, telemetry.NewLogObserver(log), a.exports.Metrics, a.feed)
}

// exporters is how the exports go, for the status.
func (a *adminServer) exporters() (traces, metrics admin.Exporter) {
	t, m := a.exports.States()
	return admin.Exporter(t), admin.Exporter(m)
}

// serve listens, or says why it cannot, and serves until close.
func (a *adminServer) serve(d *daemon.Daemon, options admin.Options, sockets []string, addrs []string) error {
	a.exports.Metrics.Ask(d)
	options.Worker, options.Processes, options.Feed = d, d, a.feed
	options.Metrics = a.exports.Metrics.Handler()
	options.Requested = a.exports.Metrics.Request
	options.Exporters = a.exporters
	if a.exports.Spans != nil {
		a.exports.Spans.Ask(d)
		options.TraceKept = a.exports.Spans.Kept
		options.Tracez = a.exports.Spans.Tracez()
	}
	options.Preview = telemetry.Preview
	options.Version = version()
	options.InstanceID = a.instance
	if id, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		options.BootID = strings.TrimSpace(string(id))
	}
	a.server = admin.New(options)
	if err := a.server.Listen(sockets, addrs); err != nil {
		return fmt.Errorf("admin API: %w", err)
	}
	options.Log.Info("admin API serves", "socket", a.server.Socket(), "addrs", strings.Join(a.server.Addrs(), " "))
	go func() { a.served <- a.server.Serve() }()
	ctx, cancel := context.WithCancel(context.Background())
	a.endWatch = cancel
	a.watch.Go(func() { telemetry.StillRunning(ctx, options.Log, d.Inflight) })
	return nil
}

// close is called when the worker has stopped. What there is to export goes out
// first, while the API still answers.
func (a *adminServer) close() error {
	a.endWatch()
	a.watch.Wait()
	flushed := a.exports.Close()
	ctx, cancel := context.WithTimeout(context.Background(), adminCloseTime)
	defer cancel()
	return errors.Join(flushed, a.server.Close(ctx), <-a.served)
}

// sockets are the places of the admin socket, best first: the worker takes the
// first that it can make, and a client the first where somebody serves.
func (s socketSettings) sockets() []string {
	if s.AdminSocket != "" {
		return []string{s.AdminSocket}
	}
	all := []string{filepath.Join("/run/execworker", socketName)}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		all = append(all, filepath.Join(dir, "execworker", socketName))
	}
	return append(all, filepath.Join(os.TempDir(), socketFolder(strconv.Itoa(os.Geteuid())), socketName))
}

const socketName = "admin.sock"

// socketFolder is that of a user in the temporary folder.
func socketFolder(uid string) string { return "execworker-" + uid }

// options are what the settings say of the API.
func (s adminSettings) options(log *slog.Logger, level *slog.LevelVar, flags []admin.Flag) admin.Options {
	return admin.Options{
		Token: s.AdminToken, Hosts: s.AdminHosts, Debug: bool(s.AdminDebug), Log: log, Level: level, Flags: flags,
	}
}
