package contract

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"execworker/test/relaytest"
)

func TestCaseO13BytesAreNotAltered(t *testing.T) {
	_, s, _ := attach(t, nil)
	tests := map[uint64]struct{ command, want string }{
		20: {`printf 'A\377\376\000B'`, "A\xff\xfe\x00B"},
		21: {`printf x; for i in {1..20000}; do printf '\342\202\254'; done`, "x" + strings.Repeat("€", 20000)},
		22: {`printf 'a\rb\rc'`, "a\rb\rc"},
	}
	for id, test := range tests {
		s.Exec(t, id, test.command, streaming)
		s.WantEnd(t, id, 0)
		if r := s.WantOutput(t, id, test.want, ""); r.MaxChunk > 32768 {
			t.Errorf("a chunk has %d bytes", r.MaxChunk)
		}
	}
	alive(t, s)
}

func TestCaseO14EndlessLineAndTail(t *testing.T) {
	_, s, _ := attach(t, nil)
	s.Exec(t, 23, `head -c 10000000 /dev/zero | tr '\0' x`, streaming)
	if r := s.WantEnd(t, 23, 0); !bytes.Equal(r.Stdout, bytes.Repeat([]byte("x"), 10000000)) {
		t.Errorf("%d bytes came", len(r.Stdout))
	}
	for id := uint64(100); id < 200; id++ {
		s.Discard(id)
		s.Exec(t, id, "head -c 1000000 /dev/zero; echo tail >&2", relaytest.Streaming(id%2 == 0))
		if id%25 == 24 { // the queue has 64 places
			for done := id - 24; done <= id; done++ {
				if r := s.WantEnd(t, done, 0); r.Size != 1000005 {
					t.Errorf("%d: %d bytes came", done, r.Size)
				}
			}
		}
	}
	alive(t, s)
}

func TestCaseO15StallDoesNotHoldUpAnAbort(t *testing.T) {
	r, s, _ := attach(t, nil)
	marker := relaytest.Marker()
	s.Discard(24)
	s.Exec(t, 24, "exec -a "+marker+" yes", streaming)
	s.WaitFrames(t, 24, 1)
	s.Stall()
	s.Exec(t, 25, "exec -a other-"+marker+" sleep 300", streaming)
	relaytest.WaitProcess(t, "other-"+marker, 1)
	s.Abort(t, 24)
	deadline := time.Now().Add(2 * time.Second)
	for len(relaytest.Marked(t, marker)) > 1 {
		if time.Now().After(deadline) {
			t.Fatal("it lives on 2 s after its abort, while nothing is read")
		}
		time.Sleep(10 * time.Millisecond)
	}
	relaytest.WaitProcess(t, "other-"+marker, 1) // the other exec runs on
	s.Resume()
	s.WantEnd(t, 24, -1)

	// And again, with the stream dropped instead: everybody is freed.
	s.Discard(26)
	s.Exec(t, 26, "exec -a "+marker+" yes", streaming)
	s.WaitFrames(t, 26, 1)
	s.Stall()
	s.Drop(nil)
	s = r.Attach(t)
	relaytest.WantNoProcess(t, marker)
	alive(t, s)
}

func TestBufferedOutputIsCutAndSaysSo(t *testing.T) {
	_, s, _ := attach(t, nil)
	s.Exec(t, 1, "head -c 9000000 /dev/zero | tr '\\0' o; echo err >&2")
	got := s.WantEnd(t, 1, 0)
	if !got.End.GetTruncated() || len(got.Stdout) != 8<<20 || string(got.Stderr) != "err\n" || got.MaxChunk > 32<<10 {
		t.Errorf("truncated %v, %d bytes, stderr %q, largest chunk %d", got.End.GetTruncated(), len(got.Stdout), got.Stderr, got.MaxChunk)
	}
	frames := s.Frames(1)
	if last := frames[len(frames)-2].Chunk; last.GetStream().String() != "STREAM_STDERR" {
		t.Error("stderr does not come after stdout")
	}
	s.Exec(t, 2, "head -c 8388608 /dev/zero; head -c 9000000 /dev/zero >&2")
	if got := s.WantEnd(t, 2, 0); got.End.GetTruncated() || len(got.Stdout) != 8<<20 || len(got.Stderr) != 8<<20 {
		t.Errorf("truncated %v, %d and %d bytes", got.End.GetTruncated(), len(got.Stdout), len(got.Stderr))
	}
	alive(t, s)
}

func TestAFloodDoesNotHoldUpOthers(t *testing.T) {
	_, s, _ := attach(t, nil)
	s.Discard(1)
	s.Exec(t, 1, "yes", streaming)
	s.WaitFrames(t, 1, 100)
	s.Exec(t, 2, "echo hi", streaming)
	s.WantEnd(t, 2, 0)
	s.Abort(t, 1)
	s.WantEnd(t, 1, -1)
	alive(t, s)
}

func TestSmallWritesAreGathered(t *testing.T) {
	_, s, _ := attach(t, nil)
	s.Exec(t, 1, "for i in {1..20000}; do echo x; done", streaming)
	s.WantEnd(t, 1, 0)
	if r := s.WantOutput(t, 1, strings.Repeat("x\n", 20000), ""); r.Chunks > 4000 { // a bound for slow machines; some 300 on a quick one
		t.Errorf("%d chunks for 20000 writes", r.Chunks)
	}
}
