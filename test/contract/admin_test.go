package contract

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
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

// Whoever asks from inside a command is refused, and seen.
func TestCommandsMayNotAsk(t *testing.T) {
	for name, opts := range map[string][]relaytest.WorkerOption{"same user": nil, "unprivileged": {relaytest.WithUID(65534, 65534)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, s, w := attach(t, nil, opts...)
			port := strings.TrimPrefix(overTCP(t, w).base, "http://127.0.0.1:")
			tcp := `exec 3<>/dev/tcp/127.0.0.1/` + port + `; printf 'GET /admin/status HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3; head -1 <&3`
			orphan := `(setsid bash -c 'until [ "$(ps -o ppid= -p $$ 2>/dev/null || cut -d" " -f4 /proc/$$/stat)" != "'$$'" ]; do :; done; ` +
				strings.ReplaceAll(tcp, "'", `'\''`) + `' & ) ; wait; sleep 1`
			attacks := []string{tcp, tcp + " # again", orphan}
			if _, err := exec.LookPath("curl"); err == nil {
				attacks = append(attacks, "curl -si --unix-socket "+w.AdminSocket()+" localhost/admin/inflight | head -1",
					"curl -si --unix-socket "+w.AdminSocket()+" -X POST localhost/admin/inflight/1/abort | head -1")
			}
			if _, err := exec.LookPath("python3"); err == nil { // one whose descriptors nobody may read
				attacks = append(attacks, `python3 -c 'import ctypes, socket
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
s = socket.create_connection(("127.0.0.1", `+port+`))
s.send(b"GET /admin/status HTTP/1.0\r\nHost: localhost\r\n\r\n")
print(s.recv(100).decode().split("\r\n")[0])'`)
			}
			for i, attack := range attacks {
				id := uint64(100 + i)
				s.Exec(t, id, attack)
				if out := string(s.WantEnd(t, id, 0).Stdout); !strings.Contains(out, " 403 ") {
					t.Errorf("%s\nanswered %q", attack, out)
				}
			}
			w.WaitLog(t, `"msg":"admin denied","req_id":"100"`)
			var status struct{ Admin struct{ Denied int } }
			overSocket(w).get(t, "/admin/status?format=json", &status)
			if status.Admin.Denied < len(attacks) {
				t.Errorf("%d denied, want %d", status.Admin.Denied, len(attacks))
			}
			s.Exec(t, 200, `exec 3<>/dev/tcp/127.0.0.1/`+port+`; printf 'GET /livez HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3; head -1 <&3`)
			if out := string(s.WantEnd(t, 200, 0).Stdout); !strings.Contains(out, " 200 ") {
				t.Errorf("livez from inside: %q", out)
			}
		})
	}
}

func TestTakenPortDoesNotStopTheWorker(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, s, w := attach(t, relaytest.Env{"ADMIN_ADDR": l.Addr().String()})
	w.WaitLog(t, "admin address not bound")
	if got := overSocket(w).ask(t, "GET", "/readyz?verbose", ""); got.code != 200 || !strings.Contains(got.body, "could not be bound") {
		t.Errorf("readyz: %d %s", got.code, got.body)
	}
	alive(t, s)
}

// Whoever is in another PID namespace has no process here, as behind a port
// forward: he sees the lists, without commands, and needs the token for the rest.
func TestPortForwardNeedsTheToken(t *testing.T) {
	const token = "a-token-for-the-operator"
	_, s, w := attach(t, relaytest.Env{"ADMIN_TOKEN": token}, relaytest.AsPID1())
	s.Exec(t, 1, "echo begun; sleep 300", streaming)
	s.WaitOutput(t, 1, "begun")
	for name, a := range map[string]api{"socket": overSocket(w), "TCP": overTCP(t, w)} {
		got := a.ask(t, "GET", "/admin/inflight?format=json", "")
		if got.code != 200 || strings.Contains(got.body, `"command":`) || !strings.Contains(got.body, `"command_name": "echo"`) {
			t.Errorf("%s: %d %s", name, got.code, got.body)
		}
		if got := a.ask(t, "POST", "/admin/inflight/1/abort", ""); got.code != 401 || !strings.Contains(got.body, "ADMIN_TOKEN") {
			t.Errorf("%s: abort without the token: %d %s", name, got.code, got.body)
		}
		if got := a.ask(t, "GET", "/admin/inflight", "", "Authorization", "Bearer "+token); got.code != 200 || !strings.Contains(got.body, "sleep 300") {
			t.Errorf("%s: with the token: %d %s", name, got.code, got.body)
		}
	}
	if got := overTCP(t, w).ask(t, "POST", "/admin/inflight/1/abort?wait=20s", "", "Authorization", "Bearer "+token); got.code != 200 {
		t.Errorf("abort with the token: %d %s", got.code, got.body)
	}
	s.WantEnd(t, 1, -1)
}

// A shell that was put into the sandbox from outside, as by kubectl exec, is an
// operator's.
func TestShellFromOutsideIsAnOperators(t *testing.T) {
	_, s, w := attach(t, nil, relaytest.AsPID1())
	s.Exec(t, 1, "echo begun; sleep 300", streaming)
	s.WaitOutput(t, 1, "begun")
	addr := strings.TrimPrefix(overTCP(t, w).base, "http://")
	host, port, _ := net.SplitHostPort(addr)
	script := "exec 3<>/dev/tcp/" + host + "/" + port + `; printf 'GET /admin/inflight HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3; cat <&3`
	out, err := exec.Command("nsenter", "-t", strconv.Itoa(w.DaemonPID(t)), "-p", "-m", "--", "bash", "-c", script).CombinedOutput()
	if err != nil {
		t.Skipf("no nsenter here: %v: %s", err, out)
	}
	if !strings.Contains(string(out), "sleep 300") {
		t.Errorf("%s", out)
	}
	s.Abort(t, 1)
	s.WantEnd(t, 1, -1)
}
