package runner_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"execworker/daemon/runner"
)

func TestNoStdinIsEmptyStdin(t *testing.T) {
	out, res := execute(t, runner.Command{Text: "cat; echo rc=$?; read -r x; echo rc=$?"})
	wantExit(t, res, 0)
	want(t, "stdout", out.stdout(), "rc=0\nrc=1\n")
}

func TestStdinThatNobodyReadsIsNoError(t *testing.T) {
	_, res := execute(t, runner.Command{Text: "exit 3", Stdin: make([]byte, 1<<20)})
	wantExit(t, res, 3)
}

func TestStdinIsWrittenBesideTheReading(t *testing.T) {
	in := bytes.Repeat([]byte("0123456789abcdef"), 3<<16)
	out, res := execute(t, runner.Command{Text: "cat", Stdin: in})
	wantExit(t, res, 0)
	if out.stdout() != string(in) {
		t.Errorf("%d bytes came back, not the %d that went in", len(out.stdout()), len(in))
	}
}

func TestEveryByteComesAndNoPieceIsTooLarge(t *testing.T) {
	out, res := execute(t, runner.Command{Text: "head -c 10000000 /dev/zero | tr '\\0' x; echo tail >&2"})
	wantExit(t, res, 0)
	if got := strings.Count(out.stdout(), "x"); got != 10000000 {
		t.Errorf("%d bytes, want 10000000", got)
	}
	want(t, "stderr", out.stderr(), "tail\n")
	if out.largest > runner.SlabSize {
		t.Errorf("a piece has %d bytes", out.largest)
	}
}

func TestHeldPipeEndsAQuietRun(t *testing.T) {
	run := start(t, runner.Command{Text: "sleep 300 & echo started; exit 3"}, newOutput())
	res := wait(t, run)
	wantExit(t, res, 3)
	if !res.Held {
		t.Error("the held pipe is not noted")
	}
	if res.Drained < 250*time.Millisecond || res.Drained > 1500*time.Millisecond {
		t.Errorf("waited %v for a quiet pipe", res.Drained)
	}
	if len(run.Tree().Members()) == 0 {
		t.Error("the background process is gone")
	}
}

func TestHeldPipeThatKeepsTalkingEndsTheRunAfterTwoSeconds(t *testing.T) {
	for _, text := range []string{
		"(while echo more; do sleep 0.1; done) & exit 3",
		"yes & exit 3",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			res := wait(t, start(t, runner.Command{Text: text}, newOutput()))
			wantExit(t, res, 3)
			if !res.Held || res.Drained < 2*time.Second || res.Drained > 20*time.Second {
				t.Errorf("held %v, over after %v; want 2s", res.Held, res.Drained)
			}
		})
	}
}

func TestARunWhoseOutputEndsEarlyGoesOn(t *testing.T) {
	for text, code := range map[string]int{"exec >&- 2>&-; sleep 0.3; exit 5": 5, "exec >/dev/null 2>&1; sleep 0.3; exit 6": 6} {
		out, res := execute(t, runner.Command{Text: text})
		wantExit(t, res, code)
		want(t, "stdout", out.stdout(), "")
		if res.Ran < 300*time.Millisecond {
			t.Errorf("%s: over after %v", text, res.Ran)
		}
	}
	run := start(t, runner.Command{Text: "exec >&- 2>&-; sleep 300", Timeout: 200 * time.Millisecond}, newOutput())
	if res := wait(t, run); res.Cause != runner.ErrTimeout || res.ByItself {
		t.Errorf("got %+v, want a timeout", res)
	}
}

func TestOutputOfAProcessSubstitutionAfterMainsEndCounts(t *testing.T) {
	out, res := execute(t, runner.Command{Text: "echo late > >(sleep 0.1; cat)"})
	wantExit(t, res, 0)
	want(t, "stdout", out.stdout(), "late\n")
}

func TestWhatMainLeftInThePipeComesHoweverSlowTheOutput(t *testing.T) {
	// Main goes on only when the output is stuck, and ends with the rest of what
	// it wrote in the pipe, which somebody else holds open.
	stuck := filepath.Join(t.TempDir(), "stuck")
	out, w := newOutput(), newWatcher()
	out.gate = sync.OnceFunc(func() {
		if err := os.WriteFile(stuck, nil, 0o600); err != nil {
			t.Error(err)
		}
		<-w.ended
		time.Sleep(3 * time.Second) // longer than any wait on an empty pipe
	})
	run := start(t, runner.Command{
		Text: "sleep 300 & printf first; while [ ! -e $STUCK ]; do sleep 0.01; done; head -c 60000 /dev/zero",
		Env:  append(os.Environ(), "STUCK="+stuck),
	}, out)
	wantExit(t, run.Wait(t.Context(), w), 0)
	if got := len(out.stdout()); got != 60005 {
		t.Errorf("%d bytes came, want 60005", got)
	}
}

func TestSurvivorsAreDrainedAndTheirTailKept(t *testing.T) {
	run := start(t, runner.Command{Text: "(sleep 0.6; head -c 10000000 /dev/zero; echo the end; sleep 300) & exit 0"}, newOutput())
	wantExit(t, wait(t, run), 0)
	deadline := time.Now().Add(time.Minute)
	for {
		tail, cut := run.Tail()
		if bytes.HasSuffix(tail, []byte("the end\n")) {
			if len(tail) != runner.TailSize || int(cut)+len(tail) != 10000008 {
				t.Errorf("%d bytes kept and %d cut, want %d kept of 10000008", len(tail), cut, runner.TailSize)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the end did not come; %d bytes kept, %d cut", len(tail), cut)
		}
		time.Sleep(10 * time.Millisecond) // the tail has no handshake of its own
	}
}
