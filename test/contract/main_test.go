// Package contract holds the built worker to what it promises on the wire,
// against a relay that misbehaves. TestCaseO.. are inputs on which programs
// like this one have failed; what counts is the kind, not the one input.
package contract

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"execworker/test/relaytest"
)

func TestMain(m *testing.M) { os.Exit(relaytest.RunTests(m)) }

var streaming = relaytest.Streaming(true)

// attach starts a worker with a relay of its own.
func attach(t *testing.T, env relaytest.Env, opts ...relaytest.WorkerOption) (*relaytest.Relay, *relaytest.Session, *relaytest.Worker) {
	t.Helper()
	r := relaytest.New(t)
	w := relaytest.StartWorker(t, r, env, opts...)
	return r, r.Attach(t), w
}

var lastAlive atomic.Uint64 // req_id of alive, above 1 000 000

// alive ends a case: the worker still answers.
func alive(t *testing.T, s *relaytest.Session) {
	t.Helper()
	id := 1_000_000 + lastAlive.Add(1)
	s.Exec(t, id, "echo alive")
	s.WantEnd(t, id, 0)
	s.WantOutput(t, id, "alive\n", "")
}

// within bounds what took place between two frames; generous, for these
// machines are noisy.
func within(t *testing.T, what string, took, bound time.Duration) {
	t.Helper()
	if took > bound {
		t.Errorf("%s took %v, more than %v", what, took, bound)
	}
}

// firstOutput is when the first chunk of id came.
func firstOutput(t *testing.T, s *relaytest.Session, id uint64) time.Time {
	t.Helper()
	s.WaitFrames(t, id, 1)
	return s.Frames(id)[0].At
}
