package daemon

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"execworker/daemon/observe"
)

// trashPrefix is of directories that are being removed. No key begins so.
const trashPrefix = ".trash-"

// sweepIdle removes workspace directories that nobody has used for a time,
// until ctx ends.
func (w *workspaces) sweepIdle(ctx context.Context) {
	if w.idle <= 0 {
		return
	}
	tick := time.NewTicker(min(max(w.idle/4, 100*time.Millisecond), time.Minute))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.removeIdle(ctx, time.Now())
		}
	}
}

// removeIdle removes what has been idle at the given time, and what an earlier
// removal left.
func (w *workspaces) removeIdle(ctx context.Context, now time.Time) {
	marks, err := os.ReadDir(filepath.Join(w.root, marksDir))
	if err != nil {
		return // none was ever made
	}
	occupied := sync.OnceValue(w.occupied) // only if there is something to remove
	for _, entry := range marks {
		key := entry.Name()
		trash := w.markPath(key)
		if !strings.HasPrefix(key, trashPrefix) {
			info, err := entry.Info()
			if err != nil || now.Sub(info.ModTime()) < w.idle {
				continue
			}
			if trash = w.discard(key, occupied); trash == "" {
				continue
			}
		}
		event := observe.WorkspaceSwept{Key: strings.TrimPrefix(filepath.Base(trash), trashPrefix)}
		if err := os.RemoveAll(trash); err != nil {
			event.Error = err.Error()
		}
		w.observer.Event(ctx, event)
	}
}

// discard moves an unused directory of ours aside and returns where to, empty
// if it is in use or not ours. Moving is one step: an exec that comes meanwhile
// makes a new one, and never meets a directory that is half gone.
func (w *workspaces) discard(key string, occupied func() []string) (trash string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	path := filepath.Join(w.root, key)
	if w.users[key] > 0 {
		return ""
	}
	resolved, err := filepath.EvalSymlinks(path) // as the kernel names where a process is
	if err != nil {
		resolved = path
	}
	for _, dir := range occupied() {
		if dir == resolved || strings.HasPrefix(dir, resolved+"/") {
			return ""
		}
	}
	was, err := os.ReadFile(w.markPath(key))
	if err != nil {
		return ""
	}
	if is, err := identify(path); err != nil || is != string(was) {
		_ = os.Remove(w.markPath(key)) // what we made is gone
		return ""
	}
	trash = w.markPath(trashPrefix + key)
	if err := os.Rename(path, trash); err != nil {
		return ""
	}
	_ = os.Remove(w.markPath(key))
	return trash
}
