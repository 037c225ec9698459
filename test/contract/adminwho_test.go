package contract

import (
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"execworker/test/relaytest"
)

// Whoever asks from inside a command is refused, and seen.
func TestCommandsMayNotAsk(t *testing.T) {
	for name, opts := range map[string][]relaytest.WorkerOption{"same user": nil, "unprivileged": {relaytest.WithUID(65534, 65534)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, s, w := attach(t, nil, opts...)
			port := strings.TrimPrefix(overTCP(t, w).base, "http://127.0.0.1:")
			tcp := `exec 3<>/dev/tcp/127.0.0.1/` + port + `; printf 'GET /admin/status HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3; head -1 <&3`
			orphan := asOrphan("'" + strings.ReplaceAll(tcp, "'", `'\''`) + "'")
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

// asOrphan is a command that has command, a quoted word, run by a process that
// nothing but its tag ties to the exec: the gate opens when its parent has ended.
// It prints what that printed.
func asOrphan(command string) string {
	return `cd $(mktemp -d) && mkfifo gate out && (setsid bash -c 'read x <gate; eval "$0" >out 2>&1' ` + command + ` &) && echo go >gate && cat out`
}

// The client is a stranger too where a command runs it, and it is seen to have
// tried.
func TestClientInsideACommandIsRefused(t *testing.T) {
	for name, opts := range map[string][]relaytest.WorkerOption{"same user": nil, "unprivileged": {relaytest.WithUID(65534, 65534)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, s, w := attach(t, nil, opts...)
			events := overSocket(w).stream(t, "/admin/events?types=admin.denied")
			s.Exec(t, 1, "echo begun; sleep 300", streaming)
			s.WaitOutput(t, 1, "begun")
			client := func(args string) string {
				return relaytest.Binary(t) + " " + args + " --admin-socket " + w.AdminSocket() + " 2>&1; echo exit code $?"
			}
			for i, attack := range []string{client("inflight"), client("why 1"), client("abort 1"), client("inflight --watch --json"), asOrphan("'" + client("abort 1") + "'")} {
				id := uint64(300 + i)
				s.Exec(t, id, attack)
				out := string(s.WantEnd(t, id, 0).Stdout)
				if !strings.Contains(out, "Commands may not ask") || !strings.Contains(out, "exit code 1\n") || strings.Contains(out, "sleep 300") {
					t.Errorf("%s\nprinted %q", attack, out)
				}
			}
			s.WantNothingMore(t, 1)
			s.Abort(t, 1)
			s.WantEnd(t, 1, -1)
			w.Signal(t, syscall.SIGTERM)
			w.Wait(t)
			text := events()
			for id := 300; id <= 304; id++ {
				word := `"req_id":"` + strconv.Itoa(id) + `"`
				if !strings.Contains(text, word) || !strings.Contains(w.Stderr(), `"msg":"admin denied",`+word) {
					t.Errorf("the attempt of exec %d is not in the events and the log: %s", id, text)
				}
			}
		})
	}
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
