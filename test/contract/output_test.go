package contract

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
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

func TestCutOutputOfAnAbortSaysSoToo(t *testing.T) {
	_, s, w := attach(t, nil)
	written := filepath.Join(w.Dir, "written")
	s.Exec(t, 1, "head -c 9000000 /dev/zero; touch "+written+"; sleep 300")
	waitFile(t, written)
	s.Abort(t, 1)
	if r := s.WantEnd(t, 1, -1); !r.End.GetTruncated() {
		t.Errorf("not truncated: %d bytes came", r.Size)
	}
}

func TestAnExecIsAnsweredBesideFloods(t *testing.T) {
	_, s, _ := attach(t, nil)
	for id := uint64(1); id <= 3; id++ {
		s.Discard(id)
		s.Exec(t, id, "yes", streaming)
		s.WaitFrames(t, id, 100)
	}
	s.Exec(t, 4, "echo hi", streaming)
	s.WantEnd(t, 4, 0)
	for id := uint64(1); id <= 3; id++ {
		s.Abort(t, id)
		s.WantEnd(t, id, -1)
	}
	alive(t, s)
}

func TestADuplicateNeverOvertakesTheOutput(t *testing.T) {
	_, s, _ := attach(t, nil)
	f := relaytest.ExecFrame(1, "head -c 400000 /dev/zero", streaming)
	s.Stall()
	s.Send(t, f)
	time.Sleep(300 * time.Millisecond) // for the command to end with its output unsent
	s.Send(t, f)
	s.Resume()
	if r := s.WantEnd(t, 1, 0); r.Size != 400000 {
		t.Errorf("the End came after %d of 400000 bytes", r.Size)
	}
	// The second one is joined, or replayed if the first is over by then.
}

func TestARelayThatDoesNotReadCostsBoundedMemory(t *testing.T) {
	_, s, w := attach(t, nil)
	s.Stall()
	for id := uint64(1); id <= 60; id++ {
		s.Discard(id)
		s.Exec(t, id, "head -c 8388608 /dev/zero; head -c 8388608 /dev/zero >&2")
	}
	time.Sleep(2 * time.Second) // for as many of them to run as can
	rss := residentBytes(t, w.DaemonPID(t))
	t.Logf("resident: %d MiB", rss>>20)
	if most := 500 << 20; rss > most { // four slots of 16 MiB, times what the race detector adds; unbounded it were 960
		t.Errorf("resident: %d MiB", rss>>20)
	}
	s.Resume()
	for id := uint64(1); id <= 60; id++ {
		s.WantEnd(t, id, 0)
	}
	alive(t, s)
}

func waitFile(t *testing.T, path string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come", filepath.Base(path))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func residentBytes(t *testing.T, pid int) int {
	t.Helper()
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	var size, resident int
	if _, err := fmt.Sscan(string(statm), &size, &resident); err != nil {
		t.Fatal(err)
	}
	return resident * os.Getpagesize()
}

func TestSmallWritesAreGathered(t *testing.T) {
	_, s, _ := attach(t, nil)
	s.Exec(t, 1, "for i in {1..20000}; do echo x; done", streaming)
	s.WantEnd(t, 1, 0)
	if r := s.WantOutput(t, 1, strings.Repeat("x\n", 20000), ""); r.Chunks > 4000 { // a bound for slow machines; some 300 on a quick one
		t.Errorf("%d chunks for 20000 writes", r.Chunks)
	}
}
