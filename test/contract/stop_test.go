package contract

import (
	"syscall"
	"testing"
	"time"

	"execworker/test/relaytest"
)

func TestDrainAnswersEverybody(t *testing.T) {
	_, s, w := attach(t, relaytest.Env{"WORKER_MAX_CONCURRENT": "2", "EXECWORKER_DRAIN": "2s", "LOG_LEVEL": "debug"})
	marker := relaytest.Marker()
	s.Exec(t, 1, "echo up; sleep 0.5; echo done", streaming)
	s.Exec(t, 2, "setsid bash -c 'exec -a "+marker+" sleep 300' & echo up; exec -a "+marker+" sleep 300", streaming)
	s.WaitOutput(t, 1, "up")
	s.WaitOutput(t, 2, "up")
	s.Exec(t, 3, "echo queued")
	w.WaitLog(t, `"req_id":"3"`)
	w.Signal(t, syscall.SIGTERM)
	s.WantError(t, 3, "busy: draining")
	s.Exec(t, 4, "echo late")
	s.WantError(t, 4, "busy: draining")
	s.WantEnd(t, 1, 0)
	s.WantOutput(t, 1, "up\ndone\n", "")
	s.WantError(t, 2, "drained: worker is shutting down")
	s.WantCloseSend(t)
	if code := w.Wait(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	relaytest.WantNoProcess(t, marker)
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	_, s, w := attach(t, relaytest.Env{"EXECWORKER_DRAIN": "1h"})
	marker := relaytest.Marker()
	s.Exec(t, 1, "setsid bash -c 'exec -a "+marker+" sleep 300' & echo up; exec -a "+marker+" sleep 300", streaming)
	s.WaitOutput(t, 1, "up")
	w.Signal(t, syscall.SIGTERM)
	w.WaitLog(t, "drain began")
	w.Signal(t, syscall.SIGTERM)
	if code := w.Wait(t); code != 130 {
		t.Errorf("exit code %d", code)
	}
	if left := relaytest.Marked(t, marker); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestSIGTERMBeforeTheRelayIsThereEndsWithZero(t *testing.T) {
	for name, hide := range map[string]func(*relaytest.Relay){"refused": (*relaytest.Relay).Stop, "silent": (*relaytest.Relay).StallTCP} {
		t.Run(name, func(t *testing.T) {
			r := relaytest.New(t)
			hide(r)
			w := relaytest.StartWorker(t, r, nil)
			w.WaitLog(t, "worker started")
			began := time.Now()
			w.Signal(t, syscall.SIGTERM)
			if code := w.Wait(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
			within(t, "the end", time.Since(began), 4*time.Second)
		})
	}
}

func TestStopWhileTheRelayDoesNotReadIsBounded(t *testing.T) {
	_, s, w := attach(t, nil)
	s.Discard(1)
	s.Exec(t, 1, "yes", streaming)
	s.WaitFrames(t, 1, 1)
	s.Stall()
	began := time.Now()
	w.Signal(t, syscall.SIGTERM)
	if code := w.Wait(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	within(t, "the end", time.Since(began), 8*time.Second) // a drain of 1 s, a sweep, 1 s for the relay
}

func TestOutputThatADrainDropsIsNoGoodExit(t *testing.T) {
	_, s, w := attach(t, nil)
	s.Discard(1)
	s.Stall()
	s.Exec(t, 1, "head -c 1400000 /dev/zero; (sleep 300) & exit 0", streaming)
	w.WaitLog(t, "exec.started")
	w.Signal(t, syscall.SIGTERM)
	w.WaitLog(t, `"outcome":"drained"`)
	w.Wait(t)
}

func TestSurvivorsAreSweptByADrain(t *testing.T) {
	_, s, w := attach(t, nil)
	marker := relaytest.Marker()
	s.Exec(t, 1, "(exec -a "+marker+" sleep 300) >/dev/null 2>&1 & setsid bash -c 'exec -a "+marker+" sleep 300' & exit 0")
	s.WantEnd(t, 1, 0)
	relaytest.WaitProcess(t, marker, 2)
	w.Signal(t, syscall.SIGTERM)
	if code := w.Wait(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if left := relaytest.Marked(t, marker); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
