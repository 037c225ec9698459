package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The guards of TCP, one row a rule. None of it changes anything.
func TestGuardOfLoopback(t *testing.T) {
	for _, c := range []struct {
		name, method, path string
		headers            []string
		want               int
		says               string
	}{
		{"own name", "GET", "/admin/status", []string{"Host", "localhost:9690"}, 200, ""},
		{"own address", "GET", "/admin/status", []string{"Host", "127.0.0.1"}, 200, ""},
		{"own IPv6 address", "GET", "/admin/status", []string{"Host", "[::1]:9"}, 200, ""},
		{"in capitals", "GET", "/admin/status", []string{"Host", "LOCALHOST:1"}, 200, ""},
		{"with a dot at the end", "GET", "/admin/status", []string{"Host", "localhost.:1"}, 200, ""},
		{"a name of the settings", "GET", "/admin/status", []string{"Host", "Worker.internal:80"}, 200, ""},
		{"another name", "GET", "/admin/status", []string{"Host", "evil.example"}, 403, "foreign-host"},
		{"another name with our port", "GET", "/admin/status", []string{"Host", "evil.example:9690"}, 403, "foreign-host"},
		{"all addresses", "GET", "/admin/status", []string{"Host", "0.0.0.0"}, 403, "foreign-host"},
		{"a name that begins like ours", "GET", "/admin/status", []string{"Host", "localhost.evil.example"}, 403, "foreign-host"},
		{"a probe under another name", "GET", "/livez", []string{"Host", "evil.example"}, 403, "foreign-host"},

		{"every other loopback address", "GET", "/admin/status", []string{"Host", "127.0.0.2"}, 403, "foreign-host"},
		{"two dots at the end", "GET", "/admin/status", []string{"Host", "localhost..:1"}, 403, "foreign-host"},
		{"a bare IPv6 address", "GET", "/admin/status", []string{"Host", "[::1]"}, 200, ""},

		{"a proxy's empty word", "GET", "/admin/status", []string{"X-Forwarded-For", ""}, 403, "behind-proxy"},
		{"a proxy's other word", "GET", "/admin/status", []string{"X-Forwarded-Host", "localhost"}, 403, "behind-proxy"},
		{"a proxy's word", "GET", "/admin/status", []string{"X-Forwarded-For", "10.0.0.1"}, 403, "behind-proxy"},
		{"the standard's word", "GET", "/admin/status", []string{"Forwarded", "for=10.0.0.1"}, 403, "behind-proxy"},
		{"nginx's word", "GET", "/admin/status", []string{"X-Real-IP", "10.0.0.1"}, 403, "behind-proxy"},
		{"a proxy's signature", "GET", "/admin/status", []string{"Via", "1.1 squid"}, 403, "behind-proxy"},

		{"a read by hand", "GET", "/admin/status", []string{"Sec-Fetch-Site", "none"}, 200, ""},
		{"a read by our page", "GET", "/admin/status", []string{"Sec-Fetch-Site", "same-origin"}, 200, ""},
		{"a read by a sister site", "GET", "/admin/status", []string{"Sec-Fetch-Site", "same-site"}, 403, "cross-site"},
		{"a read by another site", "GET", "/admin/status", []string{"Sec-Fetch-Site", "cross-site"}, 403, "cross-site"},
		{"a read by a site that has no name yet", "GET", "/admin/status", []string{"Sec-Fetch-Site", "new-site"}, 403, "cross-site"},
		{"a read with no origin", "GET", "/admin/status", []string{"Origin", "null"}, 403, "cross-site"},

		{"a write by hand", "POST", "/admin/inflight/99/abort", nil, 404, "not-found"},
		{"a write by our page", "POST", "/admin/inflight/99/abort", []string{"Sec-Fetch-Site", "same-origin", "If-Match", "1"}, 404, "not-found"},
		{"a write by our page that does not say which", "POST", "/admin/inflight/99/abort", []string{"Sec-Fetch-Site", "same-origin"}, 428, "needs-if-match"},
		{"a write by another site", "POST", "/admin/inflight/1/abort", []string{"Sec-Fetch-Site", "cross-site", "If-Match", "101"}, 403, "cross-site"},
		{"a write by a sister site", "POST", "/admin/inflight/1/abort", []string{"Sec-Fetch-Site", "same-site", "If-Match", "101"}, 403, "cross-site"},
		{"a write of another origin", "POST", "/admin/inflight/1/abort", []string{"Origin", "http://evil.example", "If-Match", "101"}, 403, "cross-site"},
		{"a write of no origin", "POST", "/admin/inflight/1/abort", []string{"Origin", "null", "If-Match", "101"}, 403, "cross-site"},

		{"a write by GET", "GET", "/admin/inflight/1/abort", nil, 405, "wrong-method"},
		{"a read by POST", "POST", "/admin/inflight", nil, 405, "wrong-method"},
		{"a preflight", "OPTIONS", "/admin/inflight/1/abort", []string{"Origin", "http://localhost"}, 405, "wrong-method"},
		{"a method that nobody knows", "BREW", "/admin/inflight", nil, 405, "wrong-method"},
		{"a method that nobody knows at no path", "BREW", "/admin/nothing", nil, 404, "no-route"},
		{"a slash at the end", "GET", "/admin/inflight/", nil, 404, "no-route"},
		{"no such path", "GET", "/admin/nothing", nil, 404, "no-route"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, everybody(ours), func(o *Options) { o.Hosts = []string{"worker.internal"} })
			code, text, header := s.ask("tcp", c.method, c.path, "", c.headers...)
			if code != c.want || !strings.Contains(text, c.says) {
				t.Errorf("%d %s", code, text)
			}
			for name := range header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("the answer has %s", name)
				}
			}
			for name, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin",
			} {
				if header.Get(name) != want {
					t.Errorf("%s is %q", name, header.Get(name))
				}
			}
			if code == 405 && header.Get("Allow") == "" {
				t.Error("no Allow")
			}
		})
	}
}

func TestGuardWantsJSON(t *testing.T) {
	s := serve(t, everybody(ours))
	for _, c := range []struct {
		contentType string
		want        int
	}{
		{"application/json", 202}, {"application/json; charset=utf-8", 202}, {"text/plain", 415}, {"application/x-www-form-urlencoded", 415}, {"", 415},
	} {
		if code, text, _ := s.ask("tcp", "POST", "/admin/drain", `{"reason":"x"}`, "Content-Type", c.contentType); code != c.want {
			t.Errorf("%q: %d %s", c.contentType, code, text)
		}
	}
}

// On the socket no browser can ask, so its rules do not count there.
func TestSocketHasNoHost(t *testing.T) {
	s := serve(t, everybody(ours))
	if code, text, _ := s.ask("unix", "GET", "/admin/status", "", "Host", "anything", "X-Forwarded-For", "x"); code != 200 {
		t.Errorf("%d %s", code, text)
	}
}

func TestPanicIsAProblem(t *testing.T) {
	s := serverOf(busyWorker())
	answer := httptest.NewRecorder()
	s.recovered(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("\x1b[2J") })).
		ServeHTTP(answer, httptest.NewRequest("GET", "/admin/status", nil))
	if answer.Code != 500 || !strings.Contains(answer.Body.String(), "urn:execworker:problem:broken") {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}
