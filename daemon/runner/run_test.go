package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"execworker/daemon/process"
	"execworker/daemon/runner"
)

func TestStreamsAndExitCodeAreApart(t *testing.T) {
	out, res := execute(t, runner.Command{Text: "echo out; echo err >&2; exit 7"})
	wantExit(t, res, 7)
	want(t, "stdout", out.stdout(), "out\n")
	want(t, "stderr", out.stderr(), "err\n")
}

func TestDeathBySignalIsToldApart(t *testing.T) {
	_, res := execute(t, runner.Command{Text: "kill -SEGV $$"})
	if !res.ByItself || res.Exit.Signal != syscall.SIGSEGV || res.Cause != nil {
		t.Errorf("got %+v, want SIGSEGV with no cause", res)
	}
}

func TestSpawnFailuresNameTheStep(t *testing.T) {
	dir := t.TempDir()
	tests := []struct {
		name    string
		command runner.Command
		path    string
		step    string
		errno   error
	}{
		{name: "NUL", command: runner.Command{Text: "echo a\x00b"}, step: "command"},
		{name: "no bash", command: runner.Command{Text: "true"}, path: dir, step: "find"},
		{name: "no directory", command: runner.Command{Text: "true", Dir: dir + "/none"}, step: "chdir", errno: syscall.ENOENT},
		{name: "environment too long", command: runner.Command{Text: "true", Env: []string{"A=" + strings.Repeat("x", 200<<10)}}, step: "exec", errno: syscall.E2BIG},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.path != "" {
				t.Setenv("PATH", test.path)
			}
			_, err := runner.Start(owner, test.command, newOutput())
			var failed *process.SpawnError
			if !errors.As(err, &failed) || failed.Step != test.step {
				t.Fatalf("got %v, want a failure of step %q", err, test.step)
			}
			if test.errno != nil && !errors.Is(err, test.errno) {
				t.Errorf("got %v, want %v", err, test.errno)
			}
		})
	}
}

func TestTimeoutCountsFromSpawnAndKillsTheTree(t *testing.T) {
	out := newOutput()
	run := start(t, runner.Command{Text: "echo partial; sleep 300 | cat", Timeout: 300 * time.Millisecond}, out)
	res := wait(t, run)
	if res.Cause != runner.ErrTimeout || res.ByItself {
		t.Fatalf("cause %v, by itself %v; want a timeout", res.Cause, res.ByItself)
	}
	if !res.Sweep.Proven() {
		t.Error("not proven gone")
	}
	want(t, "stdout", out.stdout(), "partial\n")
}

func TestExitThatRacesTheKillIsAnExit(t *testing.T) {
	// The context ends only once main is known to have ended, yet before Wait
	// is told: Wait sees both and must go by what was done.
	run := start(t, runner.Command{Text: "exit 7"}, newOutput())
	<-run.Tree().Done()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("aborted"))
	res := run.Wait(ctx, newWatcher())
	wantExit(t, res, 7)
}

func TestAbortKillsWhatHasLeftTheSession(t *testing.T) {
	out := newOutput()
	run := start(t, runner.Command{Text: "setsid sleep 300 & echo up; sleep 300"}, out)
	ctx, cancel := context.WithCancelCause(t.Context())
	aborted := errors.New("aborted")
	go func() { <-out.first; cancel(aborted) }()
	res := run.Wait(ctx, newWatcher())
	if res.Cause != aborted || res.ByItself || !res.Sweep.Proven() {
		t.Errorf("got %+v, want a proven kill", res)
	}
	if left := run.Tree().Members(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestAbortAfterMainsEndKeepsItsExit(t *testing.T) {
	out := newOutput()
	run := start(t, runner.Command{Text: "(while echo more; do sleep 0.05; done) & exit 4"}, out)
	w := newWatcher()
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-w.ended; cancel(errors.New("aborted")) }()
	res := run.Wait(ctx, w)
	wantExit(t, res, 4)
	if res.Cause == nil || !res.Sweep.Proven() {
		t.Errorf("cause %v, left %v; want the tree swept", res.Cause, res.Sweep.Left)
	}
}

func TestLongCommandIsAsAShortOne(t *testing.T) {
	pad := "#" + strings.Repeat("x", 200<<10) + "\n"
	for _, text := range []string{
		"echo ok",
		"exit 9",
		`echo "$0 $# $- $LINENO"`,
		"cat",
		"if",
		"echo a\n)\necho b",
		"ls /proc/self/fd",
		"compgen -v | grep -ci execworker",
		"set -e; false; echo no",
		"trap 'echo bye' EXIT; (exit 4)",
		"cat <<X\nhere\nX",
		"kill -TERM $$",
		`printf '%s' "$(printf 'a\n\n')"`,
	} {
		t.Run(text, func(t *testing.T) {
			in := []byte("in")
			short, shortRes := execute(t, runner.Command{Text: "#\n" + text, Stdin: in})
			long, longRes := execute(t, runner.Command{Text: pad + text, Stdin: in})
			want(t, "stdout", long.stdout(), short.stdout())
			if longRes.Exit.Code != shortRes.Exit.Code || longRes.Exit.Signal != shortRes.Exit.Signal {
				t.Errorf("exit %d, signal %v; a short command has %d, %v",
					longRes.Exit.Code, longRes.Exit.Signal, shortRes.Exit.Code, shortRes.Exit.Signal)
			}
		})
	}
	t.Run("errexit in the environment", func(t *testing.T) {
		env := append(os.Environ(), "SHELLOPTS=braceexpand:errexit:hashall")
		out, res := execute(t, runner.Command{Text: pad + "echo ok", Env: env})
		wantExit(t, res, 0)
		want(t, "stdout", out.stdout(), "ok\n")
	})
	t.Run("sixteen megabytes", func(t *testing.T) {
		out, res := execute(t, runner.Command{Text: strings.Repeat("#"+strings.Repeat("y", 1<<20)+"\n", 16) + "echo ok"})
		wantExit(t, res, 0)
		want(t, "stdout", out.stdout(), "ok\n")
	})
}

// bash itself says what its descriptors are.
func TestPipesAreThoseOfTheCommand(t *testing.T) {
	const command = "readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2"
	for _, input := range []string{"", "x"} {
		out := newOutput()
		run := start(t, runner.Command{Text: command, Stdin: []byte(input)}, out)
		wait(t, run)
		pipes := run.Pipes()
		stdin := "/dev/null"
		if input != "" {
			stdin = fmt.Sprintf("pipe:[%d]", pipes[0])
		} else if pipes[0] != 0 {
			t.Errorf("without input stdin is a pipe: %v", pipes)
		}
		want(t, "descriptors", out.stdout(), fmt.Sprintf("%s\npipe:[%d]\npipe:[%d]\n", stdin, pipes[1], pipes[2]))
	}
}
