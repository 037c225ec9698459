package contract

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"execworker/test/relaytest"
)

func TestSurvivorsCanBeForbidden(t *testing.T) {
	_, s, _ := attach(t, relaytest.Env{"EXECWORKER_SURVIVORS": "sweep"})
	marker := relaytest.Marker()
	s.Exec(t, 1, "setsid bash -c 'exec -a "+marker+" sleep 300' & exit 3")
	s.WantEnd(t, 1, 3)
	relaytest.WantNoProcess(t, marker)
	alive(t, s)
}

func TestAtMost32TreesOfSurvivorsAreKept(t *testing.T) {
	_, s, w := attach(t, nil)
	marker := relaytest.Marker()
	for id := uint64(1); id <= 33; id++ {
		s.Exec(t, id, "(exec -a "+marker+" sleep 300) >/dev/null 2>&1 & exit 0")
		s.WantEnd(t, id, 0)
	}
	w.WaitLog(t, `"kept":false`)
	relaytest.WaitProcess(t, marker, 32)
	alive(t, s)
}

func TestASurvivorNeverMeetsABrokenOrFullPipe(t *testing.T) {
	_, s, w := attach(t, nil)
	wrote := filepath.Join(w.Dir, "wrote")
	s.Exec(t, 1, "(sleep 0.5; head -c 10485760 /dev/zero; echo $? > "+wrote+") & exit 0")
	s.WantEnd(t, 1, 0)
	deadline := time.Now().Add(20 * time.Second)
	for {
		if got, err := os.ReadFile(wrote); err == nil && len(got) > 0 {
			wantFile(t, wrote, "0\n")
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the survivor is stuck")
		}
		time.Sleep(10 * time.Millisecond)
	}
	alive(t, s)
}

func TestWorkspaces(t *testing.T) {
	_, s, w := attach(t, nil)
	s.Exec(t, 1, "pwd; echo hi > f", relaytest.Key("a b"))
	s.WantEnd(t, 1, 0)
	s.WantOutput(t, 1, filepath.Join(w.Workspace(), "a b")+"\n", "")
	s.Exec(t, 2, "cat f; ls -A", relaytest.Key("a b"))
	s.WantEnd(t, 2, 0)
	s.WantOutput(t, 2, "hi\nf\n", "")
	for i, key := range []string{"..", "a/b", "/etc", ".", "a\x00b", "\x1b[2J"} {
		s.Exec(t, uint64(10+i), "touch "+filepath.Join(w.Dir, "ran"), relaytest.Key(key))
		s.WantError(t, uint64(10+i), "invalid workspace_key: ")
	}
	if _, err := os.Stat(filepath.Join(w.Dir, "ran")); err == nil {
		t.Error("a command with a bad key ran")
	}
	alive(t, s)
}

func TestIdleWorkspaceWithASurvivorIsInUse(t *testing.T) {
	_, s, w := attach(t, relaytest.Env{"WORKSPACE_IDLE": "400ms"})
	marker := relaytest.Marker()
	used, idle := filepath.Join(w.Workspace(), "used"), filepath.Join(w.Workspace(), "idle")
	s.Exec(t, 1, "(exec -a "+marker+" sleep 300) >/dev/null 2>&1 & exit 0", relaytest.Key("used"))
	s.WantEnd(t, 1, 0)
	s.Exec(t, 2, "true", relaytest.Key("idle"))
	s.WantEnd(t, 2, 0)
	w.WaitLog(t, "workspace") // the idle one is gone
	if _, err := os.Stat(idle); err == nil {
		t.Error("the idle workspace is still there")
	}
	if _, err := os.Stat(used); err != nil {
		t.Errorf("the workspace of a survivor: %v", err)
	}
	relaytest.WaitProcess(t, marker, 1)
	alive(t, s)
}
