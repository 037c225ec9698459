package admin

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"execworker/daemon/observe"
)

// Who is no operator is told of no process, no reason and no error.
func TestOthersAreToldLess(t *testing.T) {
	in := situation{now: fixtureNow, show: asItIs, unseen: unseenGone}
	seen := look(proc(10, 1, "secret-tool", "S", "nanosleep", "secret-channel", on(3, "/secret")))
	seen.Pipes = []observe.PipeHolder{holds(10, "secret-command", "stdout")}
	for _, x := range []observe.Inflight{begun(1, observe.StateRunning), begun(1, observe.StateDraining, mainEnded), begun(1, observe.StateRunning, blocked)} {
		x.Exec.Command = "secret-command"
		if got := in.explain(x, seen, unknown); strings.Contains(got.sentence+strings.Join(got.evidence, ""), "secret") {
			t.Errorf("%s: %+v", x.State, got)
		}
	}
	s := plainServer()
	for _, r := range []observe.Receipt{
		{Exec: fakeExec(1), Outcome: observe.OutcomeSpawnError, Error: "secret"},
		{Exec: fakeExec(1), Outcome: observe.OutcomeRefused, Error: "secret"},
		{Exec: fakeExec(1), Outcome: observe.OutcomeAbort, EndedBy: observe.EndedByAdmin, Reason: "secret"},
	} {
		if got := s.explainReceipt(r, unknown); strings.Contains(got, "secret") {
			t.Errorf("%q", got)
		}
	}
}

// Whatever quotes a command goes through the preview, which takes secrets out.
func TestSentencesShowTextThroughPreview(t *testing.T) {
	hide := func(s string) string { return strings.ReplaceAll(s, "hunter2", "[redacted]") }
	s := serverOf(&fakeWorker{}, func(o *Options) { o.Preview = hide })
	in := situation{now: fixtureNow, show: hide}
	for name, got := range map[string]string{
		"an error":  s.explainReceipt(observe.Receipt{Outcome: observe.OutcomeSpawnError, Error: "spawn hunter2"}, operator),
		"a reason":  s.explainReceipt(observe.Receipt{Outcome: observe.OutcomeAbort, Reason: "hunter2 is slow"}, operator),
		"a command": in.explain(begun(1, observe.StateDraining, mainEnded), &observe.Inspection{Pipes: []observe.PipeHolder{holds(812, "x hunter2", "stdout")}}, operator).sentence,
	} {
		if strings.Contains(got, "hunter2") || !strings.Contains(got, "[redacted]") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// watchedWorker hands what it is asked to look at to a function.
type watchedWorker struct {
	*fakeWorker
	inspect func(ctx context.Context, seqs []uint64, files bool) map[uint64]observe.Inspection
}

func (w *watchedWorker) Inspect(ctx context.Context, seqs []uint64, files bool) map[uint64]observe.Inspection {
	return w.inspect(ctx, seqs, files)
}

func listOf(execs ...observe.Inflight) *fakeWorker {
	return &fakeWorker{inflight: execs, status: observe.Status{CapacityMax: 4, Attached: true, Session: 3}}
}

func TestListIsExplainedByOneLookWithoutFiles(t *testing.T) {
	w := listOf(begun(1, observe.StateRunning), begun(2, observe.StateDraining, mainEnded), observe.Inflight{Exec: fakeExec(3), State: observe.StateQueued, QueuePosition: 1})
	looks := 0
	s := serverOf(w, func(o *Options) {
		o.Worker = &watchedWorker{w, func(_ context.Context, seqs []uint64, files bool) map[uint64]observe.Inspection {
			looks++
			if slices.Sort(seqs); files || !slices.Equal(seqs, []uint64{101, 102}) {
				t.Errorf("looked at %d, files %v", seqs, files)
			}
			return map[uint64]observe.Inspection{101: *look(proc(10, 1, "sleep", "S", "nanosleep", ""))}
		}}
	})
	text := textOf(t, s, "/inflight")
	for _, want := range []string{"main, pid 10 sleep, sleeps (nanosleep)", "no process was found that holds it open", "next in line"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if looks != 1 {
		t.Errorf("%d looks", looks)
	}
}

// A look that does not come back in time costs the list its reasons, not its
// answer.
func TestListDoesNotWaitForALook(t *testing.T) {
	w := listOf(begun(1, observe.StateRunning))
	s := serverOf(w, func(o *Options) {
		o.Worker = &watchedWorker{w, func(ctx context.Context, _ []uint64, _ bool) map[uint64]observe.Inspection {
			if until, ok := ctx.Deadline(); !ok || time.Until(until) > 300*time.Millisecond {
				t.Errorf("a look may take until %v", until)
			}
			<-ctx.Done()
			return nil
		}}
	})
	if text := textOf(t, s, "/inflight"); !strings.Contains(text, "there was no time to look at its processes; no output yet") {
		t.Errorf("%s", text)
	}
}

// Processes are not even looked at for whoever may not see them.
func TestOthersCauseNoLook(t *testing.T) {
	w := listOf(begun(1, observe.StateRunning))
	s := serverOf(w)
	for _, target := range []string{"/inflight", "/inflight/1", "/inflight/1?procs=1"} {
		if answer := ask(t, s, unknown, http.MethodGet, target); answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), "shown to operators only") {
			t.Errorf("GET %s: %d %s", target, answer.Code, answer.Body)
		}
	}
	if w.inspected != 0 {
		t.Errorf("%d looks", w.inspected)
	}
}

// Whatever a process calls itself, its files and its command, and whatever was
// given as a reason, what is said stays one plain line.
func FuzzSentenceIsPlain(f *testing.F) {
	for _, s := range []string{"bash", "\x1b]0;x\a", "a\nb", "\xff\xfe", "\u202e", "\u241b", "\u009b2J", "a\tb\r", strings.Repeat("x", 5000), strings.Repeat("\\", 300)} {
		f.Add(s, s, s)
	}
	s := plainServer()
	f.Fuzz(func(t *testing.T, name, file, channel string) {
		in := situation{now: fixtureNow, show: asItIs}
		for _, call := range []string{"read", "write", "flock", "", "restart_syscall", name} {
			for _, state := range []string{"S", "D", "Z", name} {
				p := proc(10, 1, name, state, call, channel, on(3, file), threads(2), heldBy(7, name))
				seen := unread(look(p, proc(11, 10, name, state, call, channel)), file)
				seen.Pipes = []observe.PipeHolder{holds(10, file, "stdout"), {Process: observe.Process{Name: name}}}
				for _, at := range []observe.State{observe.StateRunning, observe.StateDraining, observe.StateKilling} {
					wantPlain(t, in.explain(begun(1, at), seen, operator))
					wantPlain(t, in.explain(begun(1, at), unread(look(), file), operator))
				}
				wantPlain(t, in.survivors(observe.Survivors{Processes: []observe.Process{{Name: name}}}, seen))
			}
		}
		for _, outcome := range outcomes {
			r := observe.Receipt{Outcome: observe.Outcome(outcome), Signal: name, Reason: file, Error: file, EndedBy: observe.EndedBy(name), OOM: &observe.OOM{Evidence: file}, Survivors: []observe.Process{{Name: name}}}
			wantPlain(t, why{sentence: s.explainReceipt(r, operator)})
		}
	})
}
