package runner_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"execworker/daemon/process"
	"execworker/daemon/runner"

	"go.uber.org/goleak"
)

// owner is the one owner of the test binary.
var owner *process.Owner

func TestMain(m *testing.M) {
	var err error
	if owner, err = process.NewOwner(process.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if n := owner.Counts().Trees; n > 0 {
		fmt.Fprintf(os.Stderr, "%d trees are left\n", n)
		code = 1
	}
	owner.Close()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// output collects what a run writes.
type output struct {
	mu      sync.Mutex
	streams [2]bytes.Buffer
	first   chan struct{} // closed at the first byte
	once    sync.Once
	gate    func() // called for each piece, before it is taken
	largest int
}

func newOutput() *output { return &output{first: make(chan struct{})} }

func (o *output) Put(s runner.Stream, slab *runner.Slab) *runner.Slab {
	if o.gate != nil {
		o.gate()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.streams[s-runner.Stdout].Write(*slab)
	o.largest = max(o.largest, len(*slab))
	o.once.Do(func() { close(o.first) })
	slab.Free()
	return runner.NewSlab()
}

func (o *output) stdout() string { o.mu.Lock(); defer o.mu.Unlock(); return o.streams[0].String() }
func (o *output) stderr() string { o.mu.Lock(); defer o.mu.Unlock(); return o.streams[1].String() }

// watcher remembers the turns.
type watcher struct {
	ended   chan struct{}
	killing chan struct{}
}

func newWatcher() *watcher {
	return &watcher{ended: make(chan struct{}), killing: make(chan struct{})}
}

func (w *watcher) MainEnded()           { close(w.ended) }
func (w *watcher) Killing(error)        { close(w.killing) }
func (w *watcher) Killed(process.Sweep) {}

// start starts a command; whatever it leaves is swept at the end of the test.
func start(t *testing.T, c runner.Command, out runner.Output) *runner.Run {
	t.Helper()
	if c.Env == nil {
		c.Env = os.Environ()
	}
	run, err := runner.Start(owner, c, out)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		run.Tree().Sweep()
		select {
		case <-run.Tree().Gone():
		case <-time.After(30 * time.Second):
			t.Error("the tree is still there")
		}
	})
	return run
}

// wait returns the result of a run that nobody stops, and bounds a hang.
func wait(t *testing.T, run *runner.Run) runner.Result {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, fmt.Errorf("test hangs"))
	defer cancel()
	res := run.Wait(ctx, newWatcher())
	if ctx.Err() != nil {
		t.Fatal("run is not over after a minute")
	}
	return res
}

// execute starts and waits.
func execute(t *testing.T, c runner.Command) (*output, runner.Result) {
	t.Helper()
	out := newOutput()
	return out, wait(t, start(t, c, out))
}

func wantExit(t *testing.T, res runner.Result, code int) {
	t.Helper()
	if !res.ByItself || res.Exit.Signal != 0 || res.Exit.Code != code {
		t.Errorf("by itself %v, exit %d, signal %v; want by itself with exit %d", res.ByItself, res.Exit.Code, res.Exit.Signal, code)
	}
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %.200q, want %.200q", what, got, want)
	}
}
