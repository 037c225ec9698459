package relaytest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// built is the worker's binary, made once in a test process.
var built struct {
	once sync.Once
	dir  string // removed by RunTests
	path string
	err  error
}

// RunTests runs m's tests and removes the binary that StartWorker built. Call it
// from the TestMain of a package that starts workers:
//
//	func TestMain(m *testing.M) { os.Exit(relaytest.RunTests(m)) }
func RunTests(m *testing.M) int {
	defer func() {
		if built.dir != "" {
			os.RemoveAll(built.dir)
		}
	}()
	return m.Run()
}

// Binary returns the path of the built execworker: the one that EXECWORKER_BIN
// names, or one built from this tree, with the race detector if this test has it.
func Binary(t testing.TB) string {
	t.Helper()
	if given := os.Getenv("EXECWORKER_BIN"); given != "" {
		return given
	}
	built.once.Do(func() { built.path, built.err = build() })
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

func build() (string, error) {
	dir, err := os.MkdirTemp("", "execworker-bin-")
	if err != nil {
		return "", fmt.Errorf("build execworker: %w", err)
	}
	built.dir = dir
	if err := os.Chmod(dir, 0o755); err != nil { // a worker may run as another user
		return "", fmt.Errorf("build execworker: %w", err)
	}
	path := filepath.Join(dir, "execworker")
	args := []string{"build", "-buildvcs=false", "-o", path}
	cgo := "CGO_ENABLED=0"
	if raceDetector {
		args, cgo = append(args, "-race"), "CGO_ENABLED=1"
	}
	cmd := exec.Command("go", append(args, "execworker/cmd/execworker")...)
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build execworker: %w\n%s", err, out)
	}
	return path, nil
}
