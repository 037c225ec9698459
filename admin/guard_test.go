package admin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"execworker/daemon/observe"
)

// fakeProcesses says of every process what it was told to.
type fakeProcesses struct {
	mu      sync.Mutex
	origin  func(pid int) observe.Origin
	holders func(inode uint64) ([]observe.Origin, bool)
	inodes  []uint64 // that were asked for
}

func (p *fakeProcesses) Origin(pid int) observe.Origin { return p.origin(pid) }

func (p *fakeProcesses) Holders(inode uint64) ([]observe.Origin, bool) {
	p.mu.Lock()
	p.inodes = append(p.inodes, inode)
	p.mu.Unlock()
	return p.holders(inode)
}

// Processes of three kinds.
var (
	ours   = observe.Origin{Found: true, UID: os.Geteuid(), Process: observe.Process{PID: 4, Name: "curl"}}
	theirs = observe.Origin{Found: true, UID: 4711, Process: observe.Process{PID: 5, Name: "curl"}}
	inside = observe.Origin{
		Found: true, UID: os.Geteuid(), Descendant: true, Exec: observe.SandboxID(7), Seq: 107,
		Process: observe.Process{PID: 6, Name: "bash"},
	}
)

// everybody is such a process, on both kinds of connection.
func everybody(o observe.Origin) *fakeProcesses {
	return &fakeProcesses{
		origin:  func(int) observe.Origin { return o },
		holders: func(uint64) ([]observe.Origin, bool) { return []observe.Origin{o}, false },
	}
}

const testToken = "correct horse battery staple"

// served is a server that listens on a socket and on loopback, for one test.
type served struct {
	*Server
	t      *testing.T
	denied chan observe.AdminDenied
}

func serve(t *testing.T, processes Processes, changes ...func(*Options)) served {
	t.Helper()
	dir, err := os.MkdirTemp("", "ew-") // short: a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	denied := make(chan observe.AdminDenied, 64)
	s := serverOf(busyWorker(), append([]func(*Options){func(o *Options) {
		o.Processes, o.Token, o.Observer = processes, testToken, observe.Observers{o.Feed, deniedTo(denied)}
	}}, changes...)...)
	if err := s.Listen([]string{filepath.Join(dir, "admin.sock")}, []string{"127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(s.Close(ctx), <-ended); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return served{s, t, denied}
}

// deniedTo passes on what was refused to commands.
type deniedTo chan observe.AdminDenied

func (c deniedTo) Begin(ctx context.Context, _ observe.Exec) context.Context { return ctx }

func (c deniedTo) Event(_ context.Context, e observe.Event) {
	if d, ok := e.(observe.AdminDenied); ok {
		c <- d
	}
}

// ask sends one request over tcp or unix. headers are names and values in turn;
// Host is one too.
func (s served) ask(network, method, path, body string, headers ...string) (code int, text string, header http.Header) {
	s.t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		if network == "unix" {
			return new(net.Dialer).DialContext(ctx, "unix", s.Socket())
		}
		return new(net.Dialer).DialContext(ctx, "tcp", s.Addrs()[0])
	}}
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://localhost"+path, content)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, string(got), answer.Header
}

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

		{"a proxy's word", "GET", "/admin/status", []string{"X-Forwarded-For", "10.0.0.1"}, 403, "behind-proxy"},
		{"the standard's word", "GET", "/admin/status", []string{"Forwarded", "for=10.0.0.1"}, 403, "behind-proxy"},
		{"nginx's word", "GET", "/admin/status", []string{"X-Real-IP", "10.0.0.1"}, 403, "behind-proxy"},
		{"a proxy's signature", "GET", "/admin/status", []string{"Via", "1.1 squid"}, 403, "behind-proxy"},

		{"a read by hand", "GET", "/admin/status", []string{"Sec-Fetch-Site", "none"}, 200, ""},
		{"a read by our page", "GET", "/admin/status", []string{"Sec-Fetch-Site", "same-origin"}, 200, ""},
		{"a read by a sister site", "GET", "/admin/status", []string{"Sec-Fetch-Site", "same-site"}, 403, "cross-site"},
		{"a read by another site", "GET", "/admin/status", []string{"Sec-Fetch-Site", "cross-site"}, 403, "cross-site"},
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

// Who may see and do what, on both kinds of connection.
func TestClassesOfAskers(t *testing.T) {
	token := []string{"Authorization", "Bearer " + testToken}
	vanished := &fakeProcesses{
		origin:  func(int) observe.Origin { return observe.Origin{} },
		holders: func(uint64) ([]observe.Origin, bool) { return nil, false },
	}
	hidden := &fakeProcesses{origin: vanished.origin, holders: func(uint64) ([]observe.Origin, bool) { return nil, true }}
	shared := &fakeProcesses{origin: vanished.origin, holders: func(uint64) ([]observe.Origin, bool) { return []observe.Origin{ours, inside, ours}, false }}
	foreignShare := &fakeProcesses{origin: vanished.origin, holders: func(uint64) ([]observe.Origin, bool) { return []observe.Origin{ours, theirs}, false }}
	for _, c := range []struct {
		name                    string
		network                 string
		processes               *fakeProcesses
		headers                 []string
		list, detail, act, live int
		command                 bool // the list shows the text of commands
	}{
		{"an operator over TCP", "tcp", everybody(ours), nil, 200, 200, 404, 200, true},
		{"an operator over the socket", "unix", everybody(ours), nil, 200, 200, 404, 200, true},
		{"a command over TCP", "tcp", everybody(inside), nil, 403, 403, 403, 200, false},
		{"a command over the socket", "unix", everybody(inside), nil, 403, 403, 403, 200, false},
		{"a command with the token", "tcp", everybody(inside), token, 403, 403, 403, 200, false},
		{"another user over TCP", "tcp", everybody(theirs), nil, 200, 200, 401, 200, false},
		{"nobody over TCP", "tcp", vanished, nil, 200, 200, 401, 200, false},
		{"nobody with the token", "tcp", vanished, token, 200, 200, 404, 200, true},
		{"nobody with a wrong token", "tcp", vanished, []string{"Authorization", "Bearer wrong"}, 401, 401, 401, 401, false},
		{"nobody with another scheme", "tcp", vanished, []string{"Authorization", "Basic eDp5"}, 401, 401, 401, 401, false},
		{"nobody while a command hides its files", "tcp", hidden, nil, 403, 403, 403, 200, false},
		{"an operator whose socket a command has too", "tcp", shared, nil, 403, 403, 403, 200, false},
		{"an operator whose socket another user has too", "tcp", foreignShare, nil, 200, 200, 401, 200, false},
		{"somebody gone over the socket", "unix", vanished, nil, 403, 403, 403, 200, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, c.processes)
			for path, want := range map[string]int{"/admin/inflight?format=json": c.list, "/admin/execs/3": c.detail, "/admin/livez": c.live, "/livez": c.live} {
				code, text, _ := s.ask(c.network, "GET", path, "", c.headers...)
				if code != want {
					t.Errorf("GET %s: %d %s", path, code, text)
				}
				if strings.HasPrefix(path, "/admin/inflight") && strings.Contains(text, `"command":`) != c.command {
					t.Errorf("command text shown: %v", !c.command)
				}
			}
			if code, text, _ := s.ask(c.network, "POST", "/admin/inflight/99/abort", "", c.headers...); code != c.act {
				t.Errorf("POST: %d %s", code, text)
			}
		})
	}
}

func TestRefusedCommandIsReported(t *testing.T) {
	s := serve(t, everybody(inside))
	s.ask("tcp", "GET", "/admin/inflight", "")
	select {
	case d := <-s.denied:
		if d.Exec != inside.Exec || d.Process.PID != 6 || d.Method != "GET" || d.Path != "/admin/inflight" || d.Times != 1 {
			t.Errorf("%+v", d)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("no event")
	}
	for range 20 {
		s.ask("tcp", "GET", "/admin/inflight", "")
	}
	if n := len(s.denied); n > 3 { // one a second; generous for a slow machine
		t.Errorf("20 more requests gave %d events", n)
	}
}

// Each request is looked into, and a command's connection is closed.
func TestVerdictIsOfTheRequest(t *testing.T) {
	answers := []observe.Origin{ours, inside, ours}
	processes := &fakeProcesses{}
	processes.holders = func(uint64) ([]observe.Origin, bool) {
		o := answers[0]
		answers = answers[1:]
		return []observe.Origin{o}, false
	}
	s := serve(t, processes)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	for i, want := range []int{200, 403, 200} { // the third is on a new connection: the second one was closed
		answer, err := client.Get("http://" + s.Addrs()[0] + "/admin/status")
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("request %d: %d, want %d", i+1, answer.StatusCode, want)
		}
	}
}

func TestTokensCannotBeTriedOut(t *testing.T) {
	s := serve(t, &fakeProcesses{holders: func(uint64) ([]observe.Origin, bool) { return nil, false }})
	codes := map[int]int{}
	for range 20 {
		code, _, _ := s.ask("tcp", "GET", "/admin/status", "", "Authorization", "Bearer wrong")
		codes[code]++
	}
	if codes[401] > 10 || codes[503] == 0 {
		t.Errorf("20 wrong tokens were answered %v", codes)
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
