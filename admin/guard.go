package admin

import (
	"fmt"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// answerTime is what a reader gets to take an ordinary answer. Streams set their
// own.
const answerTime = 30 * time.Second

// guarded lets through what may be routed: the right host, no other site, no
// proxy, and an asker that is known for what it is.
func (s *Server) guarded(next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTime)) // a recorder has none
		limitBody(w, r)
		conn, _ := r.Context().Value(connKey{}).(*connection)
		var who asker
		var no *refusal
		if conn != nil && conn.door.network == "tcp" {
			no = s.foreign(r, crossOrigin)
		}
		if no == nil {
			who, no = s.ask(r, conn)
		}
		if no == nil && who.class == descendant {
			w.Header().Set("Connection", "close")
			if !isProbe(r) {
				s.denials.add(who.origin, r)
				no = &refusal{kind: fromInside, detail: who.why, hint: "the admin API is for the operator of the sandbox; this request was recorded"}
			}
		}
		if no == nil {
			next.ServeHTTP(w, r.WithContext(withAsker(r.Context(), who)))
			return
		}
		switch no.kind {
		case tooMany:
			w.Header().Set("Retry-After", "1")
		case badToken:
			w.Header().Set("WWW-Authenticate", `Bearer realm="execworker admin"`)
		}
		if hasBody(r) { // which nobody has read: net/http would, before it answers
			w.Header().Set("Connection", "close")
		}
		refuse(w, r, *no)
	})
}

// foreign refuses what came to loopback by a way that is not the API's. The unix
// socket needs none of it: no browser and no proxy of a page can reach that.
func (s *Server) foreign(r *http.Request, crossOrigin *http.CrossOriginProtection) *refusal {
	for _, check := range []func(*http.Request) *refusal{s.wrongHost, proxied, otherSite, otherType} {
		if no := check(r); no != nil {
			return no
		}
	}
	if err := crossOrigin.Check(r); err != nil {
		return &refusal{kind: crossSite, detail: err.Error(), hint: askOurselves}
	}
	return nil
}

const askOurselves = "ask from the API's own page, or with curl"

// isProbe says that anybody may ask: whether the worker is well is no secret. An
// escaped path is none, for it is routed as it was written (RawPath).
func isProbe(r *http.Request) bool {
	path := below(r.URL.Path)
	return r.URL.RawPath == "" && (path == "/livez" || path == "/readyz")
}

// secure sets what every answer has. No answer ever lets another site in.
func secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
}

// wrongHost refuses a name that is not ours: a page of evil.example that has
// made its name mean 127.0.0.1 still sends its name. The port is of no matter,
// since forwarding changes it.
func (s *Server) wrongHost(r *http.Request) *refusal {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if inside, ok := strings.CutPrefix(host, "["); ok { // an IPv6 address without a port
		host = strings.TrimSuffix(inside, "]")
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, host) || slices.ContainsFunc(s.options.Hosts, func(h string) bool {
		return strings.EqualFold(h, host)
	}) {
		return nil
	}
	return &refusal{
		kind: foreignHost, detail: "Host: " + ascii(r.Host) + " is not a name of this API",
		hint: "use localhost or 127.0.0.1, or name the host in ADMIN_HOSTS",
	}
}

// proxied refuses requests that came through a proxy on this host, behind which
// everybody is on loopback. That such a header is there is enough: an empty one
// is a proxy's too.
func proxied(r *http.Request) *refusal {
	for name := range r.Header {
		if name == "Forwarded" || name == "Via" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") {
			return &refusal{kind: behindProxy, detail: name + ": the request came through a proxy", hint: "ask without one, or over the unix socket"}
		}
	}
	return nil
}

// otherSite refuses what a browser says another site has asked for. Writes are
// checked by net/http beside this.
func otherSite(r *http.Request) *refusal {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin": // no browser, typed by hand, and our own page
	default:
		return &refusal{kind: crossSite, detail: "Sec-Fetch-Site: another site asks", hint: askOurselves}
	}
	if r.Header.Get("Origin") == "null" {
		return &refusal{kind: crossSite, detail: "Origin: it is null", hint: askOurselves}
	}
	return nil
}

// otherType refuses bodies that a form of another site could send.
func otherType(r *http.Request) *refusal {
	if !hasBody(r) {
		return nil
	}
	given := r.Header.Get("Content-Type")
	if kind, _, err := mime.ParseMediaType(given); err == nil && kind == "application/json" {
		return nil
	}
	return &refusal{
		kind: wrongType, detail: "Content-Type: " + ascii(given) + " is not application/json",
		hint: "send JSON with curl -H 'Content-Type: application/json' -d '{…}', or no body",
	}
}

// recovered makes a problem of a panic: a mistake in showing something must not
// be the end of running commands. An answer that has begun is cut off instead, for
// half of one must not look whole.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := &startedWriter{ResponseWriter: w}
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if cause == http.ErrAbortHandler { // net/http's own way to hang up
				panic(cause)
			}
			s.options.Log.Error("admin request failed", slog.String("path", r.URL.Path),
				slog.String("cause", fmt.Sprint(cause)), slog.String("stack", string(debug.Stack())))
			if started.yes {
				panic(http.ErrAbortHandler)
			}
			w.Header().Del("Content-Length") // of the answer that was meant
			refuse(w, r, refusal{kind: broken, detail: "the log says more", hint: "please report it"})
		}()
		next.ServeHTTP(started, r)
	})
}

// startedWriter knows whether an answer has begun.
type startedWriter struct {
	http.ResponseWriter
	yes bool
}

func (w *startedWriter) WriteHeader(status int) {
	w.yes = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *startedWriter) Write(b []byte) (int, error) {
	w.yes = true
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController: streams flush and set deadlines.
func (w *startedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
