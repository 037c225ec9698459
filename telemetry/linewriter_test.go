package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// gate is a writer that blocks until it is opened, and keeps what it was given.
type gate struct {
	open chan struct{}

	mu   sync.Mutex
	errs []error // of the next writes
	got  strings.Builder
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.errs) > 0 {
		err := g.errs[0]
		g.errs = g.errs[1:]
		if err != nil {
			return 0, err
		}
	}
	return g.got.Write(p)
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func closeWriter(t *testing.T, l *LineWriter) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestBlockedWriterStallsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		l := NewLineWriter(g)
		line := []byte(strings.Repeat("x", 1023) + "\n")
		const lines = 2000 // 2 MB, more than there is room for
		l.Write(line)
		synctest.Wait() // that one is on its way, and blocked
		for range lines {
			l.Write(line) // would deadlock the bubble if it waited
		}
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Close(ctx); err == nil {
			t.Error("Close says that all is written")
		}

		close(g.open)
		closeWriter(t, l)
		kept := strings.Count(g.got.String(), string(line))
		if want := 1 + maxPending/len(line); kept != want {
			t.Errorf("%d lines kept, want %d", kept, want)
		}
		if want := fmt.Sprintf("\n%d log lines dropped\n", 1+lines-kept); !strings.HasSuffix(g.got.String(), want) {
			t.Errorf("does not end in %q", want)
		}
	})
}

func TestNoticeStandsWhereTheGapIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		l := NewLineWriter(g)
		l.Write([]byte("first\n"))
		synctest.Wait() // it is on its way, and blocked
		l.Write([]byte("second\n"))
		l.Write([]byte(strings.Repeat("x", maxPending) + "\n")) // no room
		l.Write([]byte("would fit, but is later\n"))
		close(g.open)
		synctest.Wait()
		l.Write([]byte("last\n"))
		closeWriter(t, l)
		if want := "first\nsecond\n2 log lines dropped\nlast\n"; g.got.String() != want {
			t.Errorf("got %q, want %q", g.got.String(), want)
		}
	})
}

func TestBrokenWriterIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		g.errs = []error{nil, syscall.EPIPE, syscall.EPIPE, syscall.EAGAIN, syscall.EAGAIN, nil}
		close(g.open)
		l := NewLineWriter(g)
		for i := range 4 {
			fmt.Fprintf(l, "line %d\n", i)
			synctest.Wait()
		}
		closeWriter(t, l)
		// Line 1 fails and so does its first notice; the second is only delayed.
		if want := "line 0\n1 log lines dropped\nline 2\nline 3\n"; g.got.String() != want {
			t.Errorf("got %q, want %q", g.got.String(), want)
		}
	})
}

func TestNoticeHasTheFormatOfTheLog(t *testing.T) {
	g := newGate()
	g.errs = []error{errors.New("full")}
	close(g.open)
	l := NewLineWriter(g)
	log, err := NewLogger(l, FormatJSON, slog.LevelInfo)
	if err != nil {
		t.Fatal(err)
	}
	log.Info("lost")
	closeWriter(t, l)
	if got := g.got.String(); !strings.Contains(got, `"msg":"log lines dropped","lines":1}`) {
		t.Errorf("got %q", got)
	}
}

// A real pipe, nobody reads it, and then nobody can.
func TestClosedPipeLosesOnlyLines(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	l := NewLineWriter(w)
	for range 1000 {
		l.Write([]byte(strings.Repeat("x", 1023) + "\n"))
	}
	r.Close()
	closeWriter(t, l)
	if n, err := l.Write([]byte("after close\n")); n != 12 || err != nil {
		t.Errorf("Write after Close: %d, %v", n, err)
	}
}
