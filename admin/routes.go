package admin

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
)

// Paths of the API. Everything is below canonical; alias is the same for hands.
const (
	canonical = "/admin/v1"
	alias     = "/admin"
)

// route is one line of the API. Paths are below canonical.
type route struct {
	method, path string
	who          class // operator, or unknown for any; descendants get nothing of either
	serve        http.HandlerFunc
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

// forProbes are paths that are served at the root too, where probes and
// scrapers look for them.
var forProbes = []string{"/livez", "/readyz", "/metrics"}

// Handler is the whole API, for one kind of connection or another: who asks is
// found out from the connection in the request's context, and without one it is
// nobody.
func (s *Server) Handler() http.Handler {
	root := chi.NewRouter()
	root.Use(s.counted, s.recovered, s.guarded, middleware.GetHead)
	root.NotFound(s.notFound)
	root.MethodNotAllowed(s.wrongMethodOf(root))
	routes := s.routes()
	for _, each := range routes {
		handler := s.only(each.who, each.serve)
		root.Method(each.method, canonical+each.path, handler)
		root.Method(each.method, alias+each.path, sayCanonical(handler))
		if slices.Contains(forProbes, each.path) {
			root.Method(each.method, each.path, sayCanonical(handler))
		}
		if each.path == "/" {
			root.Method(each.method, "/", sayCanonical(handler))
			root.Method(each.method, canonical, handler)
			root.Method(each.method, alias, sayCanonical(handler))
		}
	}
	return root
}

// counted tells of each request, by the pattern and never by the path, which
// anybody can make up.
func (s *Server) counted(next http.Handler) http.Handler {
	if s.options.Requested == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, watched := time.Now(), middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		next.ServeHTTP(watched, r)
		s.options.Requested(r.Context(), chi.RouteContext(r.Context()).RoutePattern(), r.Method, watched.Status(), time.Since(began))
	})
}

// sayCanonical tells an alias from the path that will stay.
func sayCanonical(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// Escaped, as it came: a header goes to the terminal of whoever asks with curl -i.
		w.Header().Set("Content-Location", canonical+below(r.URL.EscapedPath()))
		next(w, r)
	}
}

// below is what of a path comes after the prefix of the API: /livez of
// /admin/v1/livez, /admin/livez and /livez.
func below(path string) string {
	for _, prefix := range []string{canonical, alias} {
		if rest, ok := strings.CutPrefix(path, prefix); ok && (rest == "" || rest[0] == '/') {
			path = rest
			break
		}
	}
	if path == "" {
		return "/"
	}
	return path
}

// only lets nobody but an operator through, if who is operator.
func (s *Server) only(who class, next http.HandlerFunc) http.HandlerFunc {
	if who != operator {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if a := askerOf(r); a.class != operator {
			w.Header().Set("WWW-Authenticate", `Bearer realm="execworker admin"`)
			refuse(w, r, refusal{
				kind: needsToken, detail: a.why,
				hint: "ask over the unix socket, or send Authorization: Bearer with ADMIN_TOKEN",
			})
			return
		}
		next(w, r)
	}
}

func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	refuse(w, r, refusal{kind: noRoute, detail: "nothing is at " + ascii(r.URL.Path), hint: "/admin/ lists all paths"})
}

// wrongMethodOf refuses a method that a path does not have. A trailing slash is
// part of a path: there is one way to write each.
func (s *Server) wrongMethodOf(root chi.Routes) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
			asked := m
			if m == http.MethodHead { // served wherever GET is
				asked = http.MethodGet
			}
			if root.Match(chi.NewRouteContext(), asked, r.URL.Path) {
				allowed = append(allowed, m)
			}
		}
		if len(allowed) == 0 { // chi asks here first when it does not know the method
			s.notFound(w, r)
			return
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		refuse(w, r, refusal{
			kind: wrongMethod, detail: "method: " + ascii(r.Method) + " does nothing at " + ascii(r.URL.Path),
			hint: "use " + strings.Join(allowed, " or "),
		})
	}
}
