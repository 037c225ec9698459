package main

import (
	"context"
	"errors"
	"os"
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
