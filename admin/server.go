package admin

import (
	"log/slog"
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"execworker/daemon/observe"
)

// Options are what a Server needs. All fields are required unless they say
// otherwise.
type Options struct {
	Worker    Worker
	Processes Processes
	Feed      *Feed            // which is told of everything the worker is told of
	Observer  observe.Observer // told of askers that were refused

	Token string   // that makes an operator; empty: none does
	Hosts []string // names that a Host header may have, beside those of loopback; may be nil
	Debug bool     // serve /debug

	// Preview makes untrusted text fit to be shown to an operator: one line, cut,
	// and without what looks like a secret.
	Preview func(string) string

	Level   *slog.LevelVar
	Metrics http.Handler // may be nil: /metrics is not there then
	Flags   []Flag
	Version string

	InstanceID string // of this run of the program
	BootID     string // of the kernel; may be empty
}

// Flag is one setting of the worker.
type Flag struct {
	Name   string
	Value  string // of a secret, "set" or "unset"
	Source string // default, environment or flag
	Secret bool
}

// Server is the admin API.
type Server struct {
	options Options
	worker  Worker
	feed    *Feed
}

// route is one line of the API. Paths are below /admin/v1; /admin is an alias.
type route struct {
	method, path string
	who          class // operator, or unknown for any; descendants get nothing of either
	serve        http.HandlerFunc
}

func (s *Server) mount(r chi.Router, routes []route) {
	for _, each := range routes {
		r.Method(each.method, each.path, s.only(each.who, each.serve))
	}
}

// only lets nobody but an operator through, if who is operator.
func (s *Server) only(who class, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a := askerOf(r)
		if who == operator && a.class != operator {
			w.Header().Set("WWW-Authenticate", `Bearer realm="execworker admin"`)
			refuse(w, r, refusal{kind: needsToken, detail: a.why, hint: "ask over the unix socket, or send Authorization: Bearer with ADMIN_TOKEN"})
			return
		}
		next(w, r)
	}
}

// routes are all there are, of every file.
func (s *Server) routes() []route {
	return slices.Concat(
		s.listRoutes(),
		s.execRoutes(),
		s.actRoutes(),
		s.feedRoutes(),
		s.healthRoutes(),
		s.metaRoutes(),
		s.debugRoutes(),
	)
}
