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
		conn, _ := r.Context().Value(connKey{}).(*connection)
		if conn != nil && conn.door.network == "tcp" {
			no := s.wrongHost(r)
			for _, check := range []func(*http.Request) *refusal{proxied, otherSite, otherType} {
				if no == nil {
					no = check(r)
				}
			}
			if err := crossOrigin.Check(r); no == nil && err != nil {
				no = &refusal{kind: crossSite, detail: err.Error(), hint: "ask from the API's own page, or with curl"}
			}
			if no != nil {
				refuse(w, r, *no)
				return
			}
		}
		who, no := s.ask(r, conn)
		if no == nil && who.class == descendant && !isProbe(r) {
			s.denials.add(who.origin, r)
			w.Header().Set("Connection", "close")
			no = &refusal{kind: fromInside, detail: who.why, hint: "the admin API is for the operator of the sandbox; this request was recorded"}
		}
		if no != nil {
			if no.kind == tooMany {
				w.Header().Set("Retry-After", "1")
			}
			if no.kind == badToken {
				w.Header().Set("WWW-Authenticate", `Bearer realm="execworker admin"`)
			}
			refuse(w, r, *no)
			return
		}
		next.ServeHTTP(w, r.WithContext(withAsker(r.Context(), who)))
	})
}

// isProbe says that anybody may ask: whether the worker is well is no secret.
func isProbe(r *http.Request) bool {
	path := below(r.URL.Path)
	return path == "/livez" || path == "/readyz"
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
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
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
// everybody is on loopback.
func proxied(r *http.Request) *refusal {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if r.Header.Get(name) != "" {
			return &refusal{kind: behindProxy, detail: name + ": the request came through a proxy", hint: "ask without one, or over the unix socket"}
		}
	}
	return nil
}

// otherSite refuses what a browser says another site has asked for. Writes are
// checked by net/http beside this.
func otherSite(r *http.Request) *refusal {
	hint := "ask from the API's own page, or with curl"
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return &refusal{kind: crossSite, detail: "Sec-Fetch-Site: another site asks", hint: hint}
	}
	if r.Header.Get("Origin") == "null" {
		return &refusal{kind: crossSite, detail: "Origin: it is null", hint: hint}
	}
	return nil
}

// otherType refuses bodies that a form of another site could send.
func otherType(r *http.Request) *refusal {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
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
// be the end of running commands.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
			refuse(w, r, refusal{kind: broken, detail: "the log says more", hint: "please report it"})
		}()
		next.ServeHTTP(w, r)
	})
}
