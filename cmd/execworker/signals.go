package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

var (
	errSignal = errors.New("told to stop by a signal")
	// errSecondSignal ends what the first signal only asked to end.
	errSecondSignal = errors.New("told to stop at once by a second signal")
)

// signals turns SIGINT, SIGTERM and SIGHUP into contexts: the first one ends
// first, the second one ends second, and a third one ends the program on the spot.
type signals struct {
	first, second context.Context
}

func catchSignals() *signals {
	// A write to a closed stdout or stderr must be an error to us, not our end.
	// The signal is caught and not ignored, because commands would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	stop := make(chan os.Signal, 8)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it, and means it
		signal.Notify(stop, syscall.SIGHUP)
	}
	return newSignals(stop, os.Exit)
}

// newSignals watches stop for as long as the program lives.
func newSignals(stop <-chan os.Signal, exit func(int)) *signals {
	first, endFirst := context.WithCancelCause(context.Background())
	second, endSecond := context.WithCancelCause(context.Background())
	next := nextSignal(stop)
	go func() {
		next()
		endFirst(errSignal)
		next()
		endSecond(errSecondSignal)
		next()
		exit(exitSignal)
	}()
	return &signals{first: first, second: second}
}

// nextSignal returns a function that waits for a signal. Of several SIGHUPs only
// the first one counts: a terminal that closes sends two, one from the shell and
// one from the kernel, and nobody who closes a window is in that kind of hurry.
func nextSignal(stop <-chan os.Signal) (next func()) {
	hungUp := false
	return func() {
		sig := <-stop
		for hungUp && sig == syscall.SIGHUP {
			sig = <-stop
		}
		hungUp = hungUp || sig == syscall.SIGHUP
	}
}
