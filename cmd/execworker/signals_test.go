package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
)

func TestSignalsEndOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, exited := make(chan os.Signal), 0
		s := newSignals(stop, func(code int) { exited = code })
		steps := []struct {
			first, second error
			exited        int
		}{
			{nil, nil, 0},
			{errSignal, nil, 0},
			{errSignal, errSecondSignal, 0},
			{errSignal, errSecondSignal, exitSignal},
		}
		for n, want := range steps {
			if n > 0 {
				stop <- syscall.SIGTERM
				synctest.Wait()
			}
			first, second := context.Cause(s.first), context.Cause(s.second)
			if !errors.Is(first, want.first) || !errors.Is(second, want.second) || exited != want.exited {
				t.Errorf("after %d signals: %v, %v, exited %d", n, first, second, exited)
			}
		}
	})
}

// A terminal that closes sends SIGHUP twice, and that is no second signal.
func TestHangUpCountsOnce(t *testing.T) {
	for _, rest := range [][]os.Signal{{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT}, {syscall.SIGINT, syscall.SIGTERM}} {
		synctest.Test(t, func(t *testing.T) {
			stop, exited := make(chan os.Signal), 0
			s := newSignals(stop, func(code int) { exited = code })
			for range 3 {
				stop <- syscall.SIGHUP
				synctest.Wait()
			}
			if s.first.Err() == nil || s.second.Err() != nil || exited != 0 {
				t.Errorf("after SIGHUPs: %v, %v, exited %d", s.first.Err(), s.second.Err(), exited)
			}
			for _, sig := range rest {
				stop <- sig
				synctest.Wait()
			}
			if s.second.Err() == nil || exited != exitSignal {
				t.Errorf("after %v as well: %v, exited %d", rest, s.second.Err(), exited)
			}
		})
	}
}

// Every command that waits takes a hang-up for what it is: somebody has left.
func TestHangUpIsASignalToStop(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("SIGHUP is ignored here, and stays so: the test runs under nohup")
	}
	l, name := startLink(t), processName("TestHangUp")
	x := l.exec(t, "--", "trap '' HUP; echo ready; exec -a "+name+" sleep 300")
	x.stdout.wait(t, "ready")
	x.signal(t, syscall.SIGHUP)
	x.wantCode(t, exitSignal)

	x = l.exec(t, "--", "trap '' HUP; echo ready; exec -a "+name+" sleep 300")
	x.stdout.wait(t, "ready")
	l.worker.signal(t, syscall.SIGHUP)
	l.worker.stderr.wait(t, "drain began")
	l.worker.signal(t, syscall.SIGTERM) // or it would take its ten seconds
	l.worker.wantCode(t, exitSignal)
	if err := nothingLeft(name); err != nil {
		t.Error(err)
	}
	l.relay.signal(t, syscall.SIGHUP)
	l.relay.wantCode(t, exitOK)
}

func TestHangUpStaysIgnoredUnderNohup(t *testing.T) {
	l := startLink(t)
	signal.Ignore(syscall.SIGHUP) // the child inherits it
	worker := start(t, append(l.variables, "SANDBOX_ID=nohup"), nil, "serve")
	signal.Reset(syscall.SIGHUP)
	l.relay.stdout.wait(t, "nohup attached")
	worker.signal(t, syscall.SIGHUP)
	x := l.exec(t, "--sandbox-id=nohup", "--", "echo alive")
	x.wantCode(t, exitOK)
	wantOutput(t, "stdout", x.stdout, "alive\n")
	worker.signal(t, syscall.SIGTERM)
	worker.wantCode(t, exitOK)
	if strings.Count(worker.stderr.String(), "drain began") != 1 {
		t.Errorf("drained more than once:\n%s", worker.stderr)
	}
}
