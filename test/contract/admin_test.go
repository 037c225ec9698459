package contract

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"execworker/test/relaytest"
)

// quietPort is one where somebody accepts and says nothing.
func quietPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// adminPages are all that can be read.
var adminPages = []string{
	"/", "/status", "/flags", "/inflight", "/inflight/1", "/execs", "/execs/2", "/cache", "/survivors", "/connections", "/loglevel",
	"/livez?verbose", "/readyz?verbose", "/metrics", "/openapi.json",
}

func TestCaseO10NoTokenOnAnyAdminPage(t *testing.T) {
	secrets := []string{"relaytest-token", "canary456-canary456", "canary789-canary789"}
	_, s, w := attach(t, relaytest.Env{"ADMIN_TOKEN": secrets[1], "RELAY_EXEC_TOKEN": secrets[2], "LOG_LEVEL": "debug"})
	s.Exec(t, 1, "TOKEN="+secrets[1]+" sleep 300")
	s.Exec(t, 2, "curl -H 'Authorization: Bearer "+secrets[2]+"' x; true")
	s.WantEnd(t, 2, 0)
	a := overSocket(w)
	a.waitWhy(t, "1", "sleeping")
	for _, page := range adminPages {
		for _, format := range []string{"text", "json"} {
			separator := "?"
			if strings.Contains(page, "?") {
				separator = "&"
			}
			if page == "/metrics" || page == "/openapi.json" {
				separator, format = "", ""
			} else {
				format = "format=" + format
			}
			got := a.ask(t, http.MethodGet, "/admin/v1"+page+separator+format, "")
			if got.code != http.StatusOK {
				t.Errorf("%s: %d %s", page, got.code, got.body)
			}
			for _, secret := range secrets {
				if strings.Contains(got.body, secret) {
					t.Errorf("%s shows %s", page, secret)
				}
			}
		}
	}
	for _, secret := range secrets {
		if strings.Contains(w.Stderr(), secret) {
			t.Errorf("the log shows %s", secret)
		}
	}
	s.Abort(t, 1)
	s.WantEnd(t, 1, -1)
}

func TestCaseO25DNSRebinding(t *testing.T) {
	_, s, w := attach(t, nil)
	s.Exec(t, 1, "sleep 300")
	overSocket(w).waitWhy(t, "1", "sleeping")
	a := overTCP(t, w)
	for _, host := range []string{"evil.example", "evil.example:9690", "0.0.0.0", "localhost.evil.example"} {
		if got := a.ask(t, "GET", "/admin/", "", "Host", host); got.code != 403 {
			t.Errorf("GET with Host %s: %d", host, got.code)
		}
		if got := a.ask(t, "POST", "/admin/inflight/1/abort", "", "Host", host); got.code != 403 {
			t.Errorf("POST with Host %s: %d", host, got.code)
		}
	}
	if got := a.ask(t, "GET", "/admin/inflight/1/abort", ""); got.code != 405 || got.header.Get("Allow") != "POST" {
		t.Errorf("GET on the abort: %d, Allow %q", got.code, got.header.Get("Allow"))
	}
	for _, host := range []string{"localhost:1", "127.0.0.1", "[::1]:9", "LOCALHOST."} {
		if got := a.ask(t, "GET", "/admin/inflight", "", "Host", host); got.code != 200 || !strings.Contains(got.body, "sleep 300") {
			t.Errorf("GET with Host %s: %d %s", host, got.code, got.body)
		}
	}
	wantLoopbackOnly(t, a.base)
	s.WantNothingMore(t, 1)
	s.Abort(t, 1)
	s.WantEnd(t, 1, -1)
}

// wantLoopbackOnly looks at the kernel's table of listeners.
func wantLoopbackOnly(t *testing.T, base string) {
	t.Helper()
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(base, "http://"))
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) > 3 && f[3] == "0A" && strings.HasSuffix(f[1], ":"+hexPort(port)) && !strings.HasPrefix(f[1], "0100007F") {
			t.Errorf("a listener that is not loopback: %s", line)
		}
	}
}

func TestCaseO27IDsAbove2To53(t *testing.T) {
	_, s, w := attach(t, nil)
	one, two := uint64(9007199254740992), uint64(9007199254740993)
	s.Exec(t, one, "sleep 60")
	s.Exec(t, two, "sleep 61")
	a := overSocket(w)
	a.waitWhy(t, "9007199254740992", "sleeping")
	a.waitWhy(t, "9007199254740993", "sleeping")
	var list struct{ Execs []map[string]any }
	a.get(t, "/admin/inflight?format=json", &list)
	for _, x := range list.Execs {
		if _, ok := x["req_id"].(string); !ok {
			t.Errorf("req_id is %T", x["req_id"])
		}
	}
	got := a.ask(t, "POST", "/admin/inflight/9007199254740993/abort?wait=10s&format=json", `{"reason":"too slow"}`, "Content-Type", "application/json")
	var answer struct {
		Effect   string
		Terminal struct {
			Outcome, Reason string
			EndedBy         string `json:"ended_by"`
		}
	}
	if err := json.Unmarshal([]byte(got.body), &answer); err != nil || got.code != 200 || answer.Effect != "killed" ||
		answer.Terminal.Outcome != "abort" || answer.Terminal.EndedBy != "admin" || answer.Terminal.Reason != "too slow" {
		t.Errorf("abort: %d %s", got.code, got.body)
	}
	s.WantEnd(t, two, -1)
	s.WantNothingMore(t, one)
	for _, bad := range []string{"-1", "1e3", "0x10", "007", "18446744073709551616", "%20", "abc"} {
		if got := a.ask(t, "POST", "/admin/inflight/"+bad+"/abort", ""); got.code != 400 || !strings.Contains(got.body, "req_id") {
			t.Errorf("abort of %s: %d %s", bad, got.code, got.body)
		}
	}
	s.Abort(t, one)
	s.WantEnd(t, one, -1)
}

// The same questions get the same answers through both doors.
func TestSameAnswersThroughBothDoors(t *testing.T) {
	const text, object, no = "text/plain", "application/json", "application/problem+json"
	_, _, w := attach(t, nil)
	for name, a := range map[string]api{"socket": overSocket(w), "TCP": overTCP(t, w)} {
		for _, c := range []struct {
			method, path, accept string
			code                 int
			kind, says           string
		}{
			{"GET", "/admin/inflight", "*/*", 200, text, "nothing is in flight"},
			{"GET", "/admin/v1/inflight", "*/*", 200, text, "nothing is in flight"},
			{"GET", "/admin/inflight?format=json", "*/*", 200, object, `"execs": []`},
			{"GET", "/admin/status", object, 200, object, `"sandbox_id": "relaytest"`},
			{"GET", "/admin/status?format=text", object, 200, text, "relaytest"},
			{"GET", "/admin", "*/*", 200, text, "/admin/inflight"},
			{"GET", "/livez", "*/*", 200, text, "ok"},
			{"GET", "/readyz", "*/*", 200, text, "ok"},
			{"GET", "/metrics", "*/*", 200, text, "sandbox_exec_"},
			{"HEAD", "/admin/status", "*/*", 200, text, ""},
			{"GET", "/admin/inflight?format=xml", "*/*", 400, no, "format"},
			{"GET", "/admin/inflight?sorted=age", "*/*", 400, no, "sorted"},
			{"GET", "/admin/inflight/99", "*/*", 404, no, "urn:execworker:problem:not-found"},
			{"GET", "/admin/nothing", "*/*", 404, no, "urn:execworker:problem:no-route"},
			{"GET", "/admin/inflight/", "*/*", 404, no, "urn:execworker:problem:no-route"},
			{"POST", "/admin/status", "*/*", 405, no, "urn:execworker:problem:wrong-method"},
			{"OPTIONS", "/admin/status", "*/*", 405, no, "urn:execworker:problem:wrong-method"},
			{"POST", "/admin/inflight/99/abort", "*/*", 404, no, "urn:execworker:problem:not-found"},
		} {
			got := a.ask(t, c.method, c.path, "", "Accept", c.accept)
			if got.code != c.code || !strings.HasPrefix(got.header.Get("Content-Type"), c.kind) || !strings.Contains(got.body, c.says) {
				t.Errorf("%s: %s %s: %d %v %s", name, c.method, c.path, got.code, got.header, got.body)
			}
			isAlias := !strings.HasPrefix(c.path, "/admin/v1/")
			if location := got.header.Get("Content-Location"); c.code == 200 && isAlias != strings.HasPrefix(location, "/admin/v1/") {
				t.Errorf("%s: %s: Content-Location %q", name, c.path, location)
			}
			for header := range got.header {
				if strings.HasPrefix(header, "Access-Control-") {
					t.Errorf("%s: %s %s lets other sites in: %s", name, c.method, c.path, header)
				}
			}
			if got.header.Get("X-Content-Type-Options") != "nosniff" || got.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %s %s may be sniffed or stored: %v", name, c.method, c.path, got.header)
			}
		}
	}
}
