package admin

import (
	"expvar"
	"net/http"
	"net/http/pprof"
	"time"
)

// debugRoutes are for who looks into the program itself. They are for operators
// of a worker that was started with ADMIN_DEBUG=1 only: a heap holds commands
// and tokens.
func (s *Server) debugRoutes() []route {
	return []route{
		{http.MethodGet, "/debug/pprof/", operator, s.debug(http.HandlerFunc(pprof.Index))},
		{http.MethodGet, "/debug/pprof/cmdline", operator, s.debug(http.HandlerFunc(pprof.Cmdline))},
		{http.MethodGet, "/debug/pprof/profile", operator, s.debug(http.HandlerFunc(pprof.Profile))},
		{http.MethodGet, "/debug/pprof/symbol", operator, s.debug(http.HandlerFunc(pprof.Symbol))},
		{http.MethodGet, "/debug/pprof/trace", operator, s.debug(http.HandlerFunc(pprof.Trace))},
		{http.MethodGet, "/debug/pprof/{profile}", operator, s.debug(http.HandlerFunc(pprof.Index))},
		{http.MethodGet, "/debug/vars", operator, s.debug(expvar.Handler())},
		{http.MethodGet, "/debug/tracez", operator, s.debug(http.HandlerFunc(s.tracez))},
	}
}

// tracez lists spans that run now, and some that have ended.
func (s *Server) tracez(w http.ResponseWriter, r *http.Request) {
	if s.options.Tracez == nil {
		refuse(w, r, refusal{kind: noRoute, detail: "this worker makes no traces", hint: "start it with OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_TRACES_EXPORTER"})
		return
	}
	s.options.Tracez.ServeHTTP(w, r)
}

// debug serves what net/http/pprof and expvar have. pprof knows its profiles by
// paths of its own.
func (s *Server) debug(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.options.Debug {
			refuse(w, r, refusal{kind: debugOff, detail: "this worker was started without ADMIN_DEBUG", hint: "start it with ADMIN_DEBUG=1"})
			return
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // a profile takes as long as was asked for
		own := r.Clone(r.Context())
		own.URL.Path = below(r.URL.Path)
		next.ServeHTTP(w, own)
	}
}
