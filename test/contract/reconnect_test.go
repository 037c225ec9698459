package contract

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"execworker/test/relaytest"
)

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v; want %q", filepath.Base(path), got, err, want)
	}
}

func TestRedeliveryAfterReconnectDoesNotRunAgain(t *testing.T) {
	r, s, w := attach(t, nil)
	ran := filepath.Join(w.Dir, "ran")
	ends := map[uint64]string{1: "exit 0", 2: "exit 7", 3: "exec sleep 300"}
	send := func() {
		for id, end := range ends {
			s.Exec(t, id, fmt.Sprintf("echo %d >> %s; %s", id, ran, end), relaytest.Timeout(1))
		}
		s.WantEnd(t, 1, 0)
		s.WantEnd(t, 2, 7)
		s.WantError(t, 3, "timeout:1")
	}
	send()
	s.Drop(nil)
	s = r.Attach(t)
	send()
	if got, _ := os.ReadFile(ran); strings.Count(string(got), "\n") != 3 {
		t.Errorf("ran %q", got)
	}
	w.WaitLog(t, "exec replayed")
}

func TestAnOutcomeWhoseFrameWasLostIsReplayed(t *testing.T) {
	r, s, w := attach(t, nil)
	ran, going := filepath.Join(w.Dir, "ran"), filepath.Join(w.Dir, "go")
	command := "echo x >> " + ran + "; while [ ! -e " + going + " ]; do sleep 0.01; done; exit 5"
	s.Exec(t, 1, command)
	relaytest.WaitProcess(t, going, 1)
	s.Stall()
	r.StallTCP() // whatever is sent from here on is lost
	if err := os.WriteFile(going, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	w.WaitLog(t, `"exit_code":5`)
	r.CutTCP()
	r.ResumeTCP()
	s = r.Attach(t)
	s.Exec(t, 1, command)
	s.WantEnd(t, 1, 5)
	wantFile(t, ran, "x\n")
}

func TestExecsOfALostStreamAreKilledAndRunAgainAfter(t *testing.T) {
	for name, lose := range map[string]func(*relaytest.Relay, *relaytest.Session){
		"dropped": func(_ *relaytest.Relay, s *relaytest.Session) { s.Drop(nil) },
		"cut":     func(r *relaytest.Relay, _ *relaytest.Session) { r.CutTCP() },
	} {
		t.Run(name, func(t *testing.T) {
			r, s, w := attach(t, relaytest.Env{"WORKER_MAX_CONCURRENT": "1"})
			lock, log := filepath.Join(w.Dir, "lock"), filepath.Join(w.Dir, "log")
			// Two runs at once would meet in the lock. 100 sessions take a
			// moment to kill, so that the redelivery can meet the dying run.
			command := fmt.Sprintf("exec 9>%s; flock -n 9 || echo twice >> %s; echo run >> %s; for i in {1..100}; do setsid sleep 300 9>&9 & done; echo up; wait", lock, log, log)
			s.Exec(t, 1, command, streaming)
			s.WaitOutput(t, 1, "up")
			s.Exec(t, 2, "touch "+filepath.Join(w.Dir, "queued"))
			lose(r, s)
			s = r.Attach(t)
			s.Exec(t, 1, command, streaming)
			s.WaitOutput(t, 1, "up")
			s.Abort(t, 1)
			s.WantEnd(t, 1, -1)
			wantFile(t, log, "run\nrun\n")
			alive(t, s)
			if _, err := os.Stat(filepath.Join(w.Dir, "queued")); err == nil {
				t.Error("an exec that was queued on the lost stream ran")
			}
		})
	}
}

func TestACopyOfAnExecInFlightIsSilent(t *testing.T) {
	_, s, w := attach(t, nil)
	ran := filepath.Join(w.Dir, "ran")
	f := relaytest.ExecFrame(1, "echo x >> "+ran+"; echo up; sleep 0.3", streaming)
	s.Send(t, f)
	s.WaitOutput(t, 1, "up")
	s.Send(t, f)
	s.WantEnd(t, 1, 0)
	s.WantNothingMore(t, 1)
	wantFile(t, ran, "x\n")
}

func TestAnotherExecUnderAReqIDInFlightIsRefused(t *testing.T) {
	_, s, w := attach(t, nil)
	s.Conflicting(1)
	s.Exec(t, 1, "echo up; sleep 0.3", streaming)
	s.WaitOutput(t, 1, "up")
	s.Exec(t, 1, "touch "+filepath.Join(w.Dir, "ran"))
	s.WantError(t, 1, "req_id conflict: ")
	alive(t, s)
	if _, err := os.Stat(filepath.Join(w.Dir, "ran")); err == nil {
		t.Error("the refused exec ran")
	}
}

func TestQueueHasSixtyFourPlaces(t *testing.T) {
	_, s, _ := attach(t, relaytest.Env{"WORKER_MAX_CONCURRENT": "2"})
	for id := uint64(1); id <= 2; id++ {
		s.Exec(t, id, "echo up; sleep 300", streaming)
		s.WaitOutput(t, id, "up")
	}
	for id := uint64(101); id <= 166; id++ {
		s.Exec(t, id, "echo ran")
	}
	s.WantError(t, 165, "busy: queue full")
	s.WantError(t, 166, "busy: queue full")
	s.Abort(t, 1)
	for id := uint64(101); id <= 164; id++ {
		s.WantEnd(t, id, 0)
	}
	s.Exec(t, 165, "echo ran") // a refusal is not remembered
	s.WantOutput(t, 165, "ran\n", "")
}

func TestARelayThatTakesNoAnswersIsLeft(t *testing.T) {
	r, s, w := attach(t, relaytest.Env{"WORKER_MAX_CONCURRENT": "1"})
	s.Discard(1)
	s.Exec(t, 1, "yes", streaming)
	s.WaitFrames(t, 1, 1)
	s.Stall()
	ids := make([]uint64, 5000)
	for i := range ids {
		ids[i] = uint64(1000 + i)
	}
	s.Conflicting(ids...)
	for _, id := range ids {
		if s.TrySend(relaytest.ExecFrame(id, "true")) != nil {
			break
		}
	}
	w.WaitLog(t, "egress wedged")
	s = r.Attach(t)
	alive(t, s)
}

func TestRefusalIsRetriedAndLoggedOnce(t *testing.T) {
	r := relaytest.New(t)
	r.RefuseHello(4)
	w := relaytest.StartWorker(t, r, nil)
	s := r.Attach(t)
	alive(t, s)
	attaches := r.Attaches()
	if len(attaches) != 5 {
		t.Errorf("%d attaches", len(attaches))
	}
	if n := strings.Count(w.Stderr(), "refused or duplicate sandbox_id"); n != 1 {
		t.Errorf("the refusal is logged %d times:\n%s", n, w.Stderr())
	}
}

func TestARelayThatIsDownIsLoggedOnceAndFoundAgain(t *testing.T) {
	r, s, w := attach(t, nil)
	alive(t, s)
	r.Stop()
	w.WaitLog(t, "attach failed")
	time.Sleep(3 * time.Second) // some attempts
	r.Start(t)
	began := time.Now()
	alive(t, r.Attach(t))
	within(t, "finding the relay again", time.Since(began), 36*time.Second)
	if n := strings.Count(w.Stderr(), "attach failed"); n != 1 {
		t.Errorf("the outage is logged %d times:\n%s", n, w.Stderr())
	}
}

func TestHelloComesSoonAfterALongOutage(t *testing.T) {
	if os.Getenv("LONG") == "" {
		t.Skip("takes minutes: set LONG=1")
	}
	for name, outage := range map[string]struct{ begin, end func(*relaytest.Relay) }{
		"refused":    {func(r *relaytest.Relay) { r.Stop() }, func(r *relaytest.Relay) { r.Start(t) }},
		"stalled":    {func(r *relaytest.Relay) { r.CutTCP(); r.StallTCP() }, func(r *relaytest.Relay) { r.ResumeTCP() }},
		"blackholed": {func(r *relaytest.Relay) { r.CutTCP(); r.BlackholeTCP(t) }, func(r *relaytest.Relay) { r.RestoreTCP(t) }},
	} {
		t.Run(name, func(t *testing.T) {
			r, s, _ := attach(t, nil)
			alive(t, s)
			outage.begin(r)
			time.Sleep(2 * time.Minute)
			outage.end(r)
			began := time.Now()
			s = waitAttach(t, r)
			took := time.Since(began)
			t.Logf("Hello %v after the relay was back", took)
			within(t, "Hello", took, 36*time.Second)
			alive(t, s)
		})
	}
}

// waitAttach is Attach for a relay that is back after a long time: the worker
// may be 30 s from its next attempt.
func waitAttach(t *testing.T, r *relaytest.Relay) *relaytest.Session {
	t.Helper()
	before := len(r.Attaches())
	deadline := time.Now().Add(45 * time.Second)
	for len(r.Attaches()) == before && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	return r.Attach(t)
}
