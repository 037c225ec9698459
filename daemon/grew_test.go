package daemon_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"execworker/daemon"
	"execworker/daemon/observe"
	"execworker/test/relaytest"

	"golang.org/x/sys/unix"
)

// grown collects how output was told to grow.
type grown struct {
	mu   sync.Mutex
	told []observe.OutputGrew
}

func (g *grown) hold(e observe.Event) {
	if e, ok := e.(observe.OutputGrew); ok {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.told = append(g.told, e)
	}
}

// gate is a FIFO that a command reads lines from. The test holds it open for
// reading too (fifo(7)): a writer that waits for a reader and is interrupted lets
// that reader go with nothing.
type gate struct {
	path string
	file *os.File
}

func newGate(t *testing.T) gate {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gate")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return gate{path, file}
}

// open lets the command read a line.
func (g gate) open(t *testing.T) {
	t.Helper()
	if _, err := g.file.WriteString("\n"); err != nil {
		t.Error(err)
	}
}

// A command that writes ten pieces, each after the relay has the one before, is
// told of at 2, 4 and 8. The first is FirstOutput's.
func TestOutputIsToldOfAtPowersOfTwo(t *testing.T) {
	var g grown
	d, r, _ := start(t, 1, g.hold)
	s := r.Attach(t)
	gate := newGate(t)
	s.Exec(t, 1, "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i:; read < "+gate.path+"; done", relaytest.Streaming(true))
	for i := range 10 {
		s.WaitOutput(t, 1, fmt.Sprint(i+1, ":"))
		gate.open(t)
	}
	s.WantEnd(t, 1, 0)
	var pieces, bytes []int64
	for _, e := range g.told {
		pieces, bytes = append(pieces, e.Pieces), append(bytes, e.StdoutBytes)
		if e.Stream != "stdout" || e.First || e.StderrBytes != 0 {
			t.Errorf("%+v", e)
		}
	}
	if want := []int64{2, 4, 8}; !slices.Equal(pieces, want) || !slices.Equal(bytes, []int64{6, 12, 24}) {
		t.Errorf("told of pieces %v with %v bytes, want %v", pieces, bytes, want)
	}
	last := receiptOf(t, d, 1)
	if last.StdoutChunks != 10 || last.StderrChunks != 0 || last.Chunks != 10 || last.LargestPiece != 4 || !last.LastOutputAt.After(last.StartedAt) {
		t.Errorf("receipt: %+v", last)
	}
}

// The first piece of the second stream is told of, whichever number it has.
func TestFirstOutputOfTheOtherStreamIsToldOf(t *testing.T) {
	var g grown
	d, r, _ := start(t, 1, g.hold)
	s := r.Attach(t)
	gate := newGate(t)
	s.Exec(t, 1, "for i in 1 2; do echo $i:; read < "+gate.path+"; done; echo e >&2", relaytest.Streaming(true))
	for i := range 2 {
		s.WaitOutput(t, 1, fmt.Sprint(i+1, ":"))
		gate.open(t)
	}
	s.WantEnd(t, 1, 0)
	if len(g.told) != 2 || g.told[1].Stream != "stderr" || !g.told[1].First || g.told[1].Pieces != 3 || g.told[0].First {
		t.Errorf("told: %+v", g.told)
	}
	if last := receiptOf(t, d, 1); last.StdoutChunks != 2 || last.StderrChunks != 1 || last.Chunks != 3 {
		t.Errorf("receipt: %+v", last)
	}
}

// tracing is a recorder that says where each execution's trace is, and what its
// command gets of it.
type tracing struct{ recorder }

type seqKey struct{}

func (*tracing) Begin(ctx context.Context, x observe.Exec) context.Context {
	return context.WithValue(ctx, seqKey{}, x.Seq)
}

func (*tracing) Trace(ctx context.Context) observe.Trace {
	return observe.Trace{ID: fmt.Sprintf("trace of %v", ctx.Value(seqKey{})), SpanID: "span"}
}

func (*tracing) ChildEnv(ctx context.Context) []string {
	return []string{fmt.Sprintf("TRACEPARENT=run of %v", ctx.Value(seqKey{})), "TRACESTATE"}
}

// What the observer gives a command takes the place of what it inherits, and a
// bare name takes that away.
func TestCommandGetsTheObserversEnvironment(t *testing.T) {
	r := relaytest.New(t)
	startStoppable(t, r, &tracing{recorder{events: map[string][]string{}}}, func(c *daemon.Config) {
		c.Env = append(c.Env, "TRACEPARENT=inherited", "TRACESTATE=inherited", "TRACEPARENTS=other")
	})
	s := r.Attach(t)
	for id := range uint64(2) {
		s.Exec(t, id+1, "env | grep ^TRACE | sort")
		s.WantEnd(t, id+1, 0)
		s.WantOutput(t, id+1, fmt.Sprintf("TRACEPARENT=run of %d\nTRACEPARENTS=other\n", id+1), "")
	}
}

// The same exec again is told of with the trace of the run that answers it.
func TestJoinAndReplayNameTheirOriginal(t *testing.T) {
	judged := make(chan observe.Judged, 3)
	r := relaytest.New(t)
	rec := &tracing{recorder{events: map[string][]string{}, hold: func(e observe.Event) {
		if e, ok := e.(observe.Judged); ok {
			judged <- e
		}
	}}}
	startStoppable(t, r, rec, func(*daemon.Config) {})
	want := func(verdict observe.Verdict, original observe.Trace) {
		t.Helper()
		if e := <-judged; e.Verdict != verdict || e.Original != original {
			t.Errorf("%s with %+v, want %s with %+v", e.Verdict, e.Original, verdict, original)
		}
	}
	s := r.Attach(t)
	gate := newGate(t)
	command := "echo up; read < " + gate.path
	s.Exec(t, 1, command, relaytest.Streaming(true))
	want(observe.VerdictRun, observe.Trace{})
	s.WaitOutput(t, 1, "up")
	s.Exec(t, 1, command, relaytest.Streaming(true))
	first := observe.Trace{ID: "trace of 1", SpanID: "span"}
	want(observe.VerdictJoin, first)
	gate.open(t)
	s.WantEnd(t, 1, 0)
	s.Exec(t, 1, command, relaytest.Streaming(true))
	want(observe.VerdictReplay, first)
}
