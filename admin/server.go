package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"execworker/daemon/observe"
)

// Options are what a Server needs. All fields are required unless they say
// otherwise.
type Options struct {
	Worker    Worker
	Processes Processes
	Feed      *Feed            // which is told of everything the worker is told of
	Observer  observe.Observer // told of askers that were refused
	Log       *slog.Logger     // told of what is wrong with the API itself

	Token string   // that makes an operator; empty: none does
	Hosts []string // names that a Host header may have, beside those of loopback; may be nil
	Debug bool     // serve /debug

	// Preview makes untrusted text fit to be shown to an operator: one line, cut,
	// and without what looks like a secret.
	Preview func(string) string

	Level   *slog.LevelVar
	Metrics http.Handler // may be nil: /metrics is not there then
	Tracez  http.Handler // lists spans for /debug/tracez; nil: there are none
	Flags   []Flag
	Version string

	// Requested is told of each request that was answered; route is the pattern that
	// matched, empty if none did. It may be nil.
	Requested func(ctx context.Context, route, method string, status int, took time.Duration)

	// TraceKept says whether a trace is exported; nil: there are none.
	TraceKept func(observe.Receipt) bool
	// Exporters says how traces and metrics are sent; nil: they are not.
	Exporters func() (traces, metrics Exporter)

	InstanceID string // of this run of the program
	BootID     string // of the kernel; may be empty
}

// Exporter is how one signal leaves the worker.
type Exporter struct {
	Exporter string // none, otlp or console
	Endpoint string // without user and password; may be empty
	LastOK   time.Time
	LastErr  string // untrusted
	Dropped  int64
}

// Flag is one setting of the worker.
type Flag struct {
	Name   string
	Value  string // of a secret, "set" or "unset"
	Source string // default, environment or flag
	Secret bool
}

// Server is the admin API. Make one with New, then Listen, Serve and Close it.
type Server struct {
	options Options
	worker  Worker
	feed    *Feed
	denials denials
	revert  levelRevert
	health  health

	http     *http.Server
	doors    []*door
	socket   socketFile
	problems []string
	streams  context.Context // ends when the server closes
	stop     context.CancelFunc
	serving  sync.WaitGroup
}

// New makes a server that listens nowhere yet.
func New(options Options) *Server {
	s := &Server{options: options, worker: options.Worker, feed: options.Feed}
	s.denials = denials{observer: options.Observer, execs: make(map[observe.ID]*denial)}
	s.revert.start = options.Level.Level()
	s.health.started = time.Now()
	s.streams, s.stop = context.WithCancel(context.Background())
	s.http = s.newHTTP()
	return s
}

// Serve serves what Listen has bound until Close, and returns nil then.
func (s *Server) Serve() error {
	errs := make(chan error, len(s.doors))
	for _, d := range s.doors {
		s.serving.Go(func() { errs <- s.http.Serve(d) })
	}
	s.serving.Wait()
	close(errs)
	var all []error
	for err := range errs {
		if !errors.Is(err, http.ErrServerClosed) {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// Close ends all streams, lets other answers end until ctx does, and removes the
// socket. It must be called once Listen has been, served or not.
func (s *Server) Close(ctx context.Context) error {
	s.stop() // Shutdown would wait for the streams
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.revert.cancel()
	s.denials.close()
	for _, d := range s.doors {
		_ = d.Close() // if it was never served
	}
	return errors.Join(err, s.socket.remove())
}
