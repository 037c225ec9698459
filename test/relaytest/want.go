package relaytest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// wait returns when ok, which runs with s.mu held, says so. It fails the test
// when that takes longer than bound, or when the stream ends without it.
func (s *Session) wait(t testing.TB, bound time.Duration, what string, ok func() bool) {
	t.Helper()
	timeout, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	for {
		s.mu.Lock()
		done, err, changed := ok(), s.err, s.changed
		s.mu.Unlock()
		if done {
			return
		}
		if err != nil {
			t.Fatalf("wait for %s: the stream is over: %v; %s", what, err, s.summary())
		}
		select {
		case <-changed:
		case <-timeout.Done():
			t.Fatalf("wait for %s: not within %s; %s", what, bound, s.summary())
		}
	}
}

// Result waits for the terminal frame of the latest Exec under id and returns
// that answer. An Exec sent while an earlier one under id was open belongs to the
// same answer; after its terminal frame, to the next.
func (s *Session) Result(t testing.TB, id uint64) Result {
	t.Helper()
	var r Result
	s.wait(t, hang, fmt.Sprintf("the terminal frame of req_id %d", id), func() bool {
		x := s.trackLocked(id)
		if x.ended <= x.base {
			return false
		}
		r = x.answers()[x.base]
		return true
	})
	return r
}

// Answers waits for n terminal frames under id and returns the answers of the
// whole stream, in order.
func (s *Session) Answers(t testing.TB, id uint64, n int) []Result {
	t.Helper()
	var rs []Result
	s.wait(t, hang, fmt.Sprintf("%d terminal frames of req_id %d", n, id), func() bool {
		x := s.trackLocked(id)
		if x.ended < n {
			return false
		}
		rs = x.answers()[:n]
		return true
	})
	return rs
}

// WantEnd waits for id's answer and wants an End with that code.
func (s *Session) WantEnd(t testing.TB, id uint64, code int32) Result {
	t.Helper()
	r := s.Result(t, id)
	if r.End == nil {
		t.Errorf("req_id %d ended with ExecError %q, want End %d", id, r.Err.GetMessage(), code)
	} else if r.End.GetExitCode() != code {
		t.Errorf("req_id %d ended with End %d, want %d; stderr: %q", id, r.End.GetExitCode(), code, tail(r.Stderr))
	}
	return r
}

// WantError waits for id's answer and wants an ExecError whose message begins
// with prefix.
func (s *Session) WantError(t testing.TB, id uint64, prefix string) Result {
	t.Helper()
	r := s.Result(t, id)
	if r.Err == nil {
		t.Errorf("req_id %d ended with End %d, want ExecError %q; stderr: %q", id, r.End.GetExitCode(), prefix, tail(r.Stderr))
	} else if !strings.HasPrefix(r.Err.GetMessage(), prefix) {
		t.Errorf("req_id %d ended with ExecError %q, want %q", id, r.Err.GetMessage(), prefix)
	}
	return r
}

// WantOutput waits for id's answer and wants exactly these bytes.
func (s *Session) WantOutput(t testing.TB, id uint64, stdout, stderr string) Result {
	t.Helper()
	r := s.Result(t, id)
	if string(r.Stdout) != stdout {
		t.Errorf("req_id %d: stdout %q (%d bytes), want %q (%d bytes)", id, tail(r.Stdout), len(r.Stdout), tail([]byte(stdout)), len(stdout))
	}
	if string(r.Stderr) != stderr {
		t.Errorf("req_id %d: stderr %q (%d bytes), want %q (%d bytes)", id, tail(r.Stderr), len(r.Stderr), tail([]byte(stderr)), len(stderr))
	}
	return r
}

// WaitOutput waits until the output of the latest Exec under id, terminal frame or
// not, contains text on either stream.
func (s *Session) WaitOutput(t testing.TB, id uint64, text string) {
	t.Helper()
	s.wait(t, hang, fmt.Sprintf("%q in the output of req_id %d", text, id), func() bool {
		x := s.trackLocked(id)
		rs := x.answers()
		return len(rs) > x.base &&
			(bytes.Contains(rs[x.base].Stdout, []byte(text)) || bytes.Contains(rs[x.base].Stderr, []byte(text)))
	})
}

// WaitFrames waits until n frames of any kind have come for id.
func (s *Session) WaitFrames(t testing.TB, id uint64, n int) {
	t.Helper()
	s.wait(t, hang, fmt.Sprintf("%d frames of req_id %d", n, id), func() bool {
		return len(s.trackLocked(id).frames) >= n
	})
}

// WaitHeartbeats waits until n heartbeats have come; one is due every 15 s.
func (s *Session) WaitHeartbeats(t testing.TB, n int) {
	t.Helper()
	s.wait(t, time.Duration(n)*15*time.Second+hang, fmt.Sprintf("%d heartbeats", n), func() bool {
		return len(s.heartbeats) >= n
	})
}

// fenceBase is where the req_ids of fences begin.
const fenceBase = 1 << 62

// Fence runs a command of its own and waits for its answer: whatever the worker
// had to say at once about frames sent before has come by then.
func (s *Session) Fence(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	s.fences++
	id := fenceBase + s.fences
	s.mu.Unlock()
	s.Exec(t, id, "true")
	s.Result(t, id)
}

// WantNothingMore wants no frame for the ids from here to the end of a Fence.
func (s *Session) WantNothingMore(t testing.TB, ids ...uint64) {
	t.Helper()
	before := make(map[uint64]int)
	for _, id := range ids {
		before[id] = len(s.Frames(id))
	}
	s.Fence(t)
	for _, id := range ids {
		for _, f := range s.Frames(id)[before[id]:] {
			t.Errorf("req_id %d: %s came, want nothing more", id, f.what())
		}
	}
}

// summary says what came, for a test that waits in vain.
func (s *Session) summary() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%d heartbeats", len(s.heartbeats))
	for id, x := range s.tracks {
		fmt.Fprintf(&b, "; req_id %d: %d asked", id, x.sent)
		for _, r := range x.answers() {
			fmt.Fprintf(&b, ", %d chunks of %d bytes", r.Chunks, r.Size)
			switch {
			case r.End != nil:
				fmt.Fprintf(&b, " and End %d", r.End.GetExitCode())
			case r.Err != nil:
				fmt.Fprintf(&b, " and ExecError %q", r.Err.GetMessage())
			}
		}
	}
	return b.String()
}

// tail keeps what a failed test prints short.
func tail(b []byte) []byte {
	const most = 200
	return b[max(0, len(b)-most):]
}
