package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"execworker/daemon/observe"
)

// marksDir holds, inside the workspace root, one mark for each directory that
// the worker made: only those are ever removed.
const marksDir = ".execworker"

// workspaces gives each workspace_key a directory of its own. That is a
// convenience, not a wall: commands of different keys can see each other.
type workspaces struct {
	root     string
	idle     time.Duration
	observer observe.Observer
	occupied func() []string // directories that survivors are in

	mu    sync.Mutex
	users map[string]int // execs in each, survivors included
}

// workspace is a directory in use, until its release. A nil one is the worker's
// own directory.
type workspace struct {
	all  *workspaces
	key  string
	path string
}

func newWorkspaces(root string, idle time.Duration, o observe.Observer, occupied func() []string) *workspaces {
	return &workspaces{root: root, idle: idle, observer: o, occupied: occupied, users: make(map[string]int)}
}

// enter makes the directory of key, which checkKey has passed, if there is
// none, and keeps it from being removed until its release.
func (w *workspaces) enter(key string) (*workspace, error) {
	if key == "" {
		return nil, nil
	}
	path := filepath.Join(w.root, key)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.makeLocked(key, path); err != nil {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	w.users[key]++
	return &workspace{all: w, key: key, path: path}, nil
}

// maxKey is the most bytes of a workspace_key: with our own prefixes it must
// still be a file name.
const maxKey = 200

// checkKey accepts what is one path segment and can be shown, and nothing at
// all.
func checkKey(key string) error {
	wrong := ""
	switch {
	case key == "." || key == "..":
		wrong = "is no directory of its own"
	case len(key) > maxKey:
		wrong = fmt.Sprintf("has %d bytes, more than %d", len(key), maxKey)
	case strings.Contains(key, "/"):
		wrong = "has a slash; it must be one path segment"
	case strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }):
		wrong = "has characters that cannot be printed"
	case strings.HasPrefix(key, marksDir), strings.HasPrefix(key, trashPrefix):
		wrong = "begins with a name that is the worker's own"
	default:
		return nil
	}
	return errors.New("invalid workspace_key: it " + wrong)
}

func (w *workspaces) makeLocked(key, path string) error {
	if err := os.MkdirAll(w.root, 0o755); err != nil {
		return err
	}
	err := os.Mkdir(path, 0o755)
	if err == nil {
		if err := w.mark(key, path); err != nil {
			_ = os.Remove(path) // unmarked it would stay for ever
			return err
		}
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return fmt.Errorf("%s exists and is no directory", path)
	}
	return nil
}

// mark remembers which directory it was that we made: another one under the
// same name is not ours.
func (w *workspaces) mark(key, path string) error {
	identity, err := identify(path)
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(w.root, marksDir), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.WriteFile(w.markPath(key), []byte(identity), 0o644)
}

func (w *workspaces) markPath(key string) string { return filepath.Join(w.root, marksDir, key) }

// identify names a directory as the file system does. A symbolic link has an
// identity of its own.
func identify(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("%s has no inode", path)
	}
	return fmt.Sprintf("%d:%d", stat.Dev, stat.Ino), nil
}

func (s *workspace) dir() string {
	if s == nil {
		return ""
	}
	return s.path
}

// release says that nothing of the exec is in the directory any more. The mark
// then tells how long it has been idle, to a later worker too.
func (s *workspace) release() {
	if s == nil {
		return
	}
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if s.all.users[s.key]--; s.all.users[s.key] == 0 {
		delete(s.all.users, s.key)
		now := time.Now()
		_ = os.Chtimes(s.all.markPath(s.key), now, now) // no mark, not ours
	}
}
