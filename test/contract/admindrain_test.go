package contract

import (
	"os"
	"strings"
	"testing"
	"time"

	"execworker/test/relaytest"
)

// The API answers while the worker drains, and is gone when it has stopped.
func TestAdminStopsLast(t *testing.T) {
	_, s, w := attach(t, relaytest.Env{"EXECWORKER_DRAIN": "30s"})
	s.Exec(t, 1, "until [ -e "+w.Dir+"/go ]; do sleep 0.05; done")
	a := overSocket(w)
	var list inflight
	for deadline := time.Now().Add(10 * time.Second); len(list.Execs) == 0 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		a.get(t, "/admin/inflight?format=json", &list)
	}
	stream := a.stream(t, "/admin/events")
	w.Signal(t, 15)
	w.WaitLog(t, "drain began")
	if got := a.ask(t, "GET", "/readyz", ""); got.code != 503 || !strings.Contains(got.body, "draining") {
		t.Errorf("readyz during a drain: %d %s", got.code, got.body)
	}
	if got := a.ask(t, "DELETE", "/admin/drain", ""); got.code != 409 {
		t.Errorf("a drain to stop was undone: %d %s", got.code, got.body)
	}
	if err := os.WriteFile(w.Dir+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.WantEnd(t, 1, 0)
	if code := w.Wait(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(w.AdminSocket()); err == nil {
		t.Error("the socket is still there")
	}
	if text := stream(); !strings.Contains(text, "worker.drained") {
		t.Errorf("the stream ended without the drain: %s", text)
	}
}

func TestClosedAdmission(t *testing.T) {
	_, s, w := attach(t, nil)
	a := overSocket(w)
	if got := a.ask(t, "POST", "/admin/drain", `{"reason":"image update"}`, "Content-Type", "application/json"); got.code != 202 {
		t.Fatalf("drain: %d %s", got.code, got.body)
	}
	s.Exec(t, 1, "true")
	s.WantError(t, 1, "busy: draining")
	if got := a.ask(t, "GET", "/readyz", ""); got.code != 503 {
		t.Errorf("readyz: %d", got.code)
	}
	if got := a.ask(t, "DELETE", "/admin/drain", ""); got.code != 200 {
		t.Fatalf("no drain: %d %s", got.code, got.body)
	}
	alive(t, s)
}
