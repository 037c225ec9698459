package admin

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"execworker/daemon/observe"
)

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
