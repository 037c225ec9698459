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

// signals turns SIGINT and SIGTERM into contexts: the first one ends first, the
// second one ends second, and a third one ends the program on the spot.
type signals struct {
	first, second context.Context
}

func catchSignals() *signals {
	// A write to a closed stdout or stderr must be an error to us, not our end.
	// The signal is caught and not ignored, because commands would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	stop := make(chan os.Signal, 3)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	return newSignals(stop, os.Exit)
}

// newSignals watches stop for as long as the program lives.
func newSignals(stop <-chan os.Signal, exit func(int)) *signals {
	first, endFirst := context.WithCancelCause(context.Background())
	second, endSecond := context.WithCancelCause(context.Background())
	go func() {
		<-stop
		endFirst(errSignal)
		<-stop
		endSecond(errSecondSignal)
		<-stop
		exit(exitSignal)
	}()
	return &signals{first: first, second: second}
}
