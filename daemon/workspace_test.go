package daemon

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"execworker/daemon/observe"
)

func startWorkspaces(t *testing.T) *workspaces {
	t.Helper()
	return newWorkspaces(filepath.Join(t.TempDir(), "root"), time.Hour, observe.Observers{}, func() []string { return nil })
}

func enter(t *testing.T, w *workspaces, key string) *workspace {
	t.Helper()
	s, err := w.enter(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// later removes what is idle two hours from now.
func (w *workspaces) later() { w.removeIdle(context.Background(), time.Now().Add(2*time.Hour)) }

func wantDir(t *testing.T, path string, there bool) {
	t.Helper()
	if _, err := os.Stat(path); (err == nil) != there {
		t.Errorf("%s is there: %v, want %v", filepath.Base(path), err == nil, there)
	}
}

func TestBadWorkspaceKeysAreRefused(t *testing.T) {
	for _, key := range []string{".", "..", "a/b", "/a", "../a", "a\nb", "a\x00b", "a\x1bb", "\u202ea", strings.Repeat("x", 201), ".execworker", ".execworker-x", ".trash-x"} {
		if err := checkKey(key); err == nil || !strings.HasPrefix(err.Error(), "invalid workspace_key: ") {
			t.Errorf("%q: %v", key, err)
		}
	}
	for _, key := range []string{"", "a", "user@x:1", ".hidden", "a b", "é", "..."} {
		if err := checkKey(key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
}

func TestNoKeyIsTheWorkersOwnDirectory(t *testing.T) {
	s := enter(t, startWorkspaces(t), "")
	if s.dir() != "" {
		t.Errorf("runs in %q", s.dir())
	}
	s.release()
}

func TestAWorkspaceThatIsAFileIsNamed(t *testing.T) {
	w := startWorkspaces(t)
	os.MkdirAll(w.root, 0o755)
	os.WriteFile(filepath.Join(w.root, "a"), nil, 0o644)
	if _, err := w.enter("a"); err == nil || !strings.HasPrefix(err.Error(), "workspace: ") {
		t.Errorf("got %v", err)
	}
}

func TestIdleWorkspaceIsRemoved(t *testing.T) {
	w := startWorkspaces(t)
	s := enter(t, w, "a")
	os.WriteFile(filepath.Join(s.dir(), "f"), nil, 0o644)
	s.release()
	w.removeIdle(t.Context(), time.Now())
	wantDir(t, s.dir(), true)
	w.later()
	wantDir(t, s.dir(), false)
	if entries, _ := os.ReadDir(filepath.Join(w.root, marksDir)); len(entries) != 0 {
		t.Errorf("left %v", entries)
	}
}

func TestWorkspaceInUseStays(t *testing.T) {
	w := startWorkspaces(t)
	s, other := enter(t, w, "a"), enter(t, w, "a")
	s.release()
	w.later()
	wantDir(t, s.dir(), true)
	other.release()
	w.occupied = func() []string { return []string{s.dir() + "/sub"} }
	w.later()
	wantDir(t, s.dir(), true)
	w.occupied = func() []string { return []string{s.dir() + "x"} }
	w.later()
	wantDir(t, s.dir(), false)
}

func TestASurvivorIsFoundBehindASymbolicLink(t *testing.T) {
	w := startWorkspaces(t)
	real := t.TempDir()
	if err := os.Symlink(real, w.root); err != nil {
		t.Fatal(err)
	}
	s := enter(t, w, "a")
	s.release()
	w.occupied = func() []string { return []string{filepath.Join(real, "a")} }
	w.later()
	wantDir(t, s.dir(), true)
}

func TestADirectoryThatCannotBeMarkedIsNotLeft(t *testing.T) {
	w := startWorkspaces(t)
	os.MkdirAll(w.root, 0o755)
	os.WriteFile(filepath.Join(w.root, marksDir), nil, 0o644) // no directory
	if _, err := w.enter("a"); err == nil {
		t.Error("no error")
	}
	wantDir(t, filepath.Join(w.root, "a"), false)
}

func TestOnlyDirectoriesTheWorkerMadeAreRemoved(t *testing.T) {
	w := startWorkspaces(t)
	found := filepath.Join(w.root, "found")
	os.MkdirAll(found, 0o755)
	enter(t, w, "found").release()

	remade := enter(t, w, "remade")
	remade.release()
	os.Rename(remade.dir(), remade.dir()+".old") // still there, so that its inode is not given out again
	os.Mkdir(remade.dir(), 0o755)

	outside := t.TempDir()
	linked := enter(t, w, "linked")
	linked.release()
	os.Rename(linked.dir(), linked.dir()+".old")
	os.Symlink(outside, linked.dir())

	w.later()
	for _, path := range []string{found, remade.dir(), linked.dir(), outside} {
		wantDir(t, path, true)
	}
}

func TestARemovalThatWasCutShortIsFinished(t *testing.T) {
	w := startWorkspaces(t)
	enter(t, w, "a").release()
	trash := w.discard("a", w.occupied)
	wantDir(t, trash, true)
	w.removeIdle(t.Context(), time.Now())
	wantDir(t, trash, false)
}
