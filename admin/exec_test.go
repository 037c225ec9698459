package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"execworker/daemon/observe"
)

// detailOf is the JSON about one exec.
func detailOf(t *testing.T, s *Server, who class, target string) (d inflightDetail) {
	t.Helper()
	answer := ask(t, s, who, http.MethodGet, target, "Accept", "application/json")
	if answer.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", target, answer.Code, answer.Body)
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// stuckWorker has one exec: a shell, and a child that reads a pipe.
func stuckWorker() *fakeWorker {
	w := listOf(begun(1, observe.StateRunning))
	seen := unread(look(
		proc(10, 1, "bash", "S", "wait4", "do_wait", func(p *observe.ProcessDetail) { p.Command = "bash -c 'cat f'" }),
		proc(11, 10, "cat", "S", "read", "pipe_read", on(3, "pipe:[7]"), used(5), func(p *observe.ProcessDetail) { p.RSSBytes, p.CPU, p.Session = 3<<20, time.Second, 11 }),
	), "the command line of pid 11: \x1bno")
	seen.More = 2
	seen.Pipes = []observe.PipeHolder{
		holds(11, "", "stdout", func(h *observe.PipeHolder) { h.FD = 1 }),
		holds(99, "tail -f log", "stderr", func(h *observe.PipeHolder) { h.Member = false }),
	}
	w.inspections = map[uint64]observe.Inspection{101: *seen}
	return w
}

func TestOneExecIsShownWithItsEvidence(t *testing.T) {
	d := detailOf(t, serverOf(stuckWorker()), operator, "/inflight/1")
	if d.Etag != "101" || d.Why.Kind != whyPipe || !strings.Contains(d.Why.Sentence, "pid 11 cat waits to read from pipe:[7] (fd 3), until somebody writes or the last writer ends, and main waits for it") {
		t.Errorf("%+v", d.Why)
	}
	if len(d.Evidence) != 5 || d.Evidence[2] != "and 2 processes more" {
		t.Errorf("evidence %q", d.Evidence)
	}
	p := d.Processes[1]
	if p.PID != 11 || p.Main || p.RSSBytes != 3<<20 || p.CPUMS != 1000 || p.InWindow != 5 || *p.Syscall != "read" || *p.FD != 3 || *p.File != "pipe:[7]" || p.Command != nil || p.SID != 11 {
		t.Errorf("process %+v", p)
	}
	if main := d.Processes[0]; !main.Main || main.FD != nil || main.File != nil || *main.Command != "preview of bash -c 'cat f'" || main.Waits != "waits for a child (wait4, do_wait)" {
		t.Errorf("main %+v", main)
	}
	if h := d.Pipes[1]; h.Process.PID != 99 || h.Stream != "stderr" || h.Member || !h.Writes || *h.Command != "preview of tail -f log" {
		t.Errorf("holder %+v", h)
	}
	if d.More != 2 || d.WindowMS != 100 || !slices.Equal(d.Unreadable, []string{"the command line of pid 11: \x1bno"}) {
		t.Errorf("more %d, window %d ms, unreadable %q", d.More, d.WindowMS, d.Unreadable)
	}
}

// The sentence first, then timeline, tree and whoever else holds a pipe.
func TestTextOfOneExecBeginsWithTheReason(t *testing.T) {
	text := textOf(t, serverOf(stuckWorker()), "/inflight/1")
	at := 0
	for _, want := range []string{
		"req_id 1: running for 4", "pid 11 cat waits to read from pipe:[7]", "AFTER  STEP", "spawned",
		"WAITS\n10 ", "\n. 11 ", "5%", "3.0 MiB", "and 2 processes more", "pid 99", "unreadable: the command line of pid 11: \\x1bno", "stop it:",
	} {
		i := strings.Index(text[at:], want)
		if i < 0 {
			t.Fatalf("%q is not there, or not in its place, in\n%s", want, text)
		}
		at += i
	}
}

// Others get the sentence alone.
func TestOthersSeeNoProcessesOfOneExec(t *testing.T) {
	d := detailOf(t, serverOf(stuckWorker()), unknown, "/inflight/1")
	if len(d.Processes)+len(d.Pipes)+len(d.Evidence)+len(d.Unreadable)+d.More != 0 || d.Why.Kind != "running" {
		t.Errorf("%+v", d)
	}
}

func TestProcessesAreNotLookedAtUnlessAsked(t *testing.T) {
	w := stuckWorker()
	d := detailOf(t, serverOf(w), operator, "/inflight/1?procs=0")
	if w.inspected != 0 || len(d.Processes) != 0 || !strings.Contains(d.Why.Sentence, "its processes were not looked at") {
		t.Errorf("%d looks: %q", w.inspected, d.Why.Sentence)
	}
}

// A look takes its time, and what is said is as of its end: the state, too.
func TestOneExecIsShownAsOfTheLook(t *testing.T) {
	w := stuckWorker()
	s := serverOf(w, func(o *Options) {
		o.Worker = &watchedWorker{w, func(_ context.Context, seqs []uint64, files bool) map[uint64]observe.Inspection {
			if !files || !slices.Equal(seqs, []uint64{101}) {
				t.Errorf("looked at %d, files %v", seqs, files)
			}
			w.change(func(w *fakeWorker) {
				w.inflight = []observe.Inflight{begun(1, observe.StateDraining, mainEnded)}
			})
			return w.inspections
		}}
	})
	if d := detailOf(t, s, operator, "/inflight/1"); d.State != "draining" || d.Why.Kind != whyHeld || d.RunMS == nil || *d.RunMS != 39_000 {
		t.Errorf("%s: %+v", d.State, d.Why)
	}
}

// An exec that ends while it is looked at is shown as it was.
func TestOneExecThatEndsDuringTheLookIsShown(t *testing.T) {
	w := stuckWorker()
	s := serverOf(w, func(o *Options) {
		o.Worker = &watchedWorker{w, func(context.Context, []uint64, bool) map[uint64]observe.Inspection {
			w.change(func(w *fakeWorker) { w.inflight = nil })
			return nil
		}}
	})
	if d := detailOf(t, s, operator, "/inflight/1"); d.State != "running" || !strings.Contains(d.Why.Sentence, unseenGone) {
		t.Errorf("%s: %+v", d.State, d.Why)
	}
}

// Whoever asks for what is not in flight is told where it is.
func TestWhatIsNotInFlightSaysWhereItIs(t *testing.T) {
	s := serverOf(&fakeWorker{
		receipts:  []observe.Receipt{{Exec: fakeExec(4)}, {Exec: fakeExec(3)}},
		survivors: []observe.Survivors{{Exec: fakeExec(3)}},
	})
	for target, hint := range map[string]string{
		"/inflight/3": "see /admin/survivors/3",
		"/inflight/4": "see /admin/execs/4",
		"/inflight/5": "see /admin/inflight and /admin/execs",
	} {
		answer := ask(t, s, operator, http.MethodGet, target)
		var p problem
		if err := json.Unmarshal(answer.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		if answer.Code != http.StatusNotFound || p.Type != "urn:execworker:problem:not-found" || p.Hint != hint || p.ReqID == nil || "/inflight/"+*p.ReqID != target {
			t.Errorf("GET %s: %d %+v", target, answer.Code, p)
		}
	}
}

// Two runs of one req_id: the one that waits is what a caller waits for.
func TestHeirIsShownRatherThanTheDyingRun(t *testing.T) {
	dying := begun(1, observe.StateKilling)
	dying.Exec.Seq = 7
	s := serverOf(listOf(dying, observe.Inflight{Exec: fakeExec(1), State: observe.StateWaiting}))
	if d := detailOf(t, s, operator, "/inflight/1"); d.Why.Kind != whyWaiting || !slices.Equal(d.Evidence, []string{"the earlier run, etag 7, is killing, pid 10"}) {
		t.Errorf("%+v %q", d.Why, d.Evidence)
	}
}
