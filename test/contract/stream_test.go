package contract

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"execworker/test/relaytest"

	sandboxv1 "execworker/proto/sandbox/v1"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

func TestCaseO16MessageOverFourMiB(t *testing.T) {
	_, s, _ := attach(t, nil)
	s.Exec(t, 25, "sleep 1; echo ok")
	s.Exec(t, 26, "wc -c", relaytest.Stdin(make([]byte, 5<<20)))
	s.WantEnd(t, 26, 0)
	s.WantOutput(t, 26, "5242880\n", "")
	s.WantEnd(t, 25, 0)
	s.WantOutput(t, 25, "ok\n", "")
	alive(t, s)
}

func TestCaseO16MessageOverTheLimitEndsTheStreamOnly(t *testing.T) {
	r, s, _ := attach(t, nil)
	marker := relaytest.Marker()
	s.Exec(t, 25, "exec -a "+marker+" sleep 300")
	relaytest.WaitProcess(t, marker, 1)
	s.SendOversize(26, 65<<20)
	<-s.Over()
	s = r.Attach(t)
	relaytest.WantNoProcess(t, marker)
	alive(t, s)
}

func TestMessagesOverTheLimitAreNoReasonToHurry(t *testing.T) {
	r, s, w := attach(t, nil)
	for range 3 {
		s.SendOversize(26, 65<<20)
		<-s.Over()
		s = r.Attach(t)
	}
	alive(t, s)
	w.Signal(t, syscall.SIGTERM)
	w.Wait(t)
	if !strings.Contains(w.Stderr(), "message too large") || !strings.Contains(w.Stderr(), `"attempts":4`) {
		t.Errorf("the attempts are not counted on:\n%s", w.Stderr())
	}
}

func TestCaseO17FramesTheWorkerDoesNotKnow(t *testing.T) {
	r, s, _ := attach(t, nil)
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 7)
	s.SendRaw(t, nil)
	s.SendRaw(t, unknown)
	s.SendRaw(t, []byte{0xff, 0xff, 0xff, 0xff})
	s.Abort(t, 12345)

	exec, err := proto.Marshal(&sandboxv1.Exec{ReqId: 26, Command: "echo extra"})
	if err != nil {
		t.Fatal(err)
	}
	s.SendRaw(t, protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), append(exec, unknown...)))
	s.WantEnd(t, 26, 0)
	s.WantOutput(t, 26, "extra\n", "")
	alive(t, s)
	if n := len(r.Attaches()); n != 1 {
		t.Errorf("%d attaches", n)
	}
}

func TestACommandThatIsNotUTF8IsAnsweredAndCostsNobodyElse(t *testing.T) {
	_, s, _ := attach(t, nil)
	s.Exec(t, 1, "sleep 0.3; echo ok")
	s.Conflicting(2) // relaytest cannot read its number either
	s.SendRaw(t, []byte("\x0a\x07\x08\x02\x12\x03a\xff\xfe"))
	s.WantError(t, 2, "invalid frame: ")
	s.WantEnd(t, 1, 0)
	s.WantOutput(t, 1, "ok\n", "")
	alive(t, s)
}

func TestCaseO18IdleStreamIsKept(t *testing.T) {
	if os.Getenv("LONG") == "" {
		t.Skip("takes six minutes: set LONG=1")
	}
	r, s, _ := attach(t, nil)
	select {
	case <-s.Over():
		t.Fatal("the stream ended")
	case <-time.After(6 * time.Minute):
	}
	if n := len(r.Attaches()); n != 1 {
		t.Errorf("%d attaches", n)
	}
	if n := len(s.Heartbeats()); n < 23 || n > 25 {
		t.Errorf("%d heartbeats in 6 minutes", n)
	}
	alive(t, s)
}

func TestCaseO18HalfOpenLinkIsNoticed(t *testing.T) {
	if os.Getenv("LONG") == "" {
		t.Skip("takes two minutes: set LONG=1")
	}
	r, s, w := attach(t, nil)
	alive(t, s)
	r.BlackholeTCP(t)
	began := time.Now()
	for !strings.Contains(w.Stderr(), "session ended") { // longer than WaitLog waits
		if time.Since(began) > 100*time.Second {
			t.Fatalf("the dead link is not noticed; the log:\n%s", w.Stderr())
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("noticed after %v", time.Since(began))
	r.RestoreTCP(t)
	alive(t, r.Attach(t))
}

func TestHeartbeatComesEvery15Seconds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 30 seconds")
	}
	t.Parallel()
	_, s, _ := attach(t, nil)
	s.WaitHeartbeats(t, 2)
	beats := s.Heartbeats()
	for i, gap := range []time.Duration{beats[0].Sub(s.HelloAt), beats[1].Sub(beats[0])} {
		if gap < 14*time.Second || gap > 25*time.Second {
			t.Errorf("heartbeat %d comes after %v", i, gap)
		}
	}
}

func TestCaseO19CleanEndIsDialledAgain(t *testing.T) {
	r, s, _ := attach(t, nil)
	alive(t, s)
	s.EndCleanly()
	s = r.Attach(t) // it checks that Hello comes first
	alive(t, s)
}

func TestCaseO20AbortOfAQueuedExec(t *testing.T) {
	_, s, w := attach(t, relaytest.Env{"WORKER_MAX_CONCURRENT": "1"})
	ran := filepath.Join(w.Dir, "o20")
	s.Exec(t, 28, "echo up; sleep 300", streaming)
	s.WaitOutput(t, 28, "up")
	s.Exec(t, 29, "touch "+ran)
	s.Abort(t, 29)
	s.WantEnd(t, 29, -1) // while 28 still has the slot
	if len(s.Frames(28)) != 1 {
		t.Error("the running exec has ended first")
	}
	s.Abort(t, 28)
	s.WantEnd(t, 28, -1)
	alive(t, s)
	if _, err := os.Stat(ran); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the aborted exec ran: %v", err)
	}
}

func TestCaseO21SameReqIDOtherPayload(t *testing.T) {
	for _, id := range []uint64{30, 0, 1<<64 - 1, 1 << 53} {
		_, s, w := attach(t, nil)
		ran := filepath.Join(w.Dir, "ran")
		s.Exec(t, id, "echo one")
		s.WantOutput(t, id, "one\n", "")
		s.Exec(t, id, "echo two; echo x >> "+ran+"; exit 2")
		s.WantEnd(t, id, 2)
		s.WantOutput(t, id, "two\n", "")
		s.Exec(t, id, "echo two; echo x >> "+ran+"; exit 2")
		s.WantEnd(t, id, 2)
		s.WantOutput(t, id, "", "")
		if got, _ := os.ReadFile(ran); string(got) != "x\n" {
			t.Errorf("req_id %d: ran %q", id, got)
		}
		w.WaitLog(t, "collided")
		alive(t, s)
	}
}

func TestCaseO22TimeoutZeroAndLargest(t *testing.T) {
	_, s, _ := attach(t, nil)
	ids := []uint64{0, 4294967295}
	for _, id := range ids {
		s.Exec(t, id, "sleep 0.5; echo ok", relaytest.Timeout(uint32(id)))
	}
	for _, id := range ids {
		s.WantEnd(t, id, 0)
		s.WantOutput(t, id, "ok\n", "")
	}
	alive(t, s)
}

func TestHelloIsHonest(t *testing.T) {
	r := relaytest.New(t)
	bin := t.TempDir()
	bash, err := os.Readlink("/proc/self/exe") // any program will do
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bash", "git"} {
		if err := os.Symlink(bash, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	relaytest.StartWorker(t, r, relaytest.Env{
		"PATH": bin, "SANDBOX_IMAGE": "img:1", "SANDBOX_TRUST": "trusted", "WORKER_LABELS": "a=b,c=d", "WORKER_MAX_CONCURRENT": "7",
	})
	h := r.Attach(t).Hello
	if !slices.Equal(h.Capabilities, []string{"bash", "git", "workspace-subdir"}) {
		t.Errorf("capabilities %q", h.Capabilities)
	}
	if h.SandboxId != "relaytest" || h.Image != "img:1" || h.Trust != "trusted" || h.CapacityMax != 7 || h.Arch == "" || len(h.Labels) != 2 || h.Labels["a"] != "b" {
		t.Errorf("Hello is %v", h)
	}
}
