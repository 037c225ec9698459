package admin

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"execworker/daemon/observe"
)

// lineWith is the line of a text that begins with a word, its columns apart.
func lineWith(t *testing.T, text, word string) string {
	t.Helper()
	for line := range strings.Lines(text) {
		if columns := strings.Fields(line); len(columns) > 0 && columns[0] == word {
			return strings.Join(columns, " ")
		}
	}
	t.Fatalf("no line begins with %s in\n%s", word, text)
	return ""
}

func TestTextOfInflight(t *testing.T) {
	s := serverOf(busyWorker())
	text := textOf(t, s, "/inflight")
	if first, _, _ := strings.Cut(text, "\n"); !strings.HasPrefix(first, "running 1 of 4, queued 1 of 64, relay attached for ") ||
		!strings.HasSuffix(first, `new execs are refused: "preview of maintenance"`) {
		t.Errorf("it begins with %q", first)
	}
	if got := lineWith(t, text, "2"); !strings.Contains(got, "2 queued ") || !strings.Contains(got, `- 0 B 0 B - "preview of cd /src`) {
		t.Errorf("the queued one is %q", got)
	}
	if got := lineWith(t, text, "1"); !strings.Contains(got, "1 killing ") || !strings.Contains(got, "1.0 MiB 12 B 4242") {
		t.Errorf("the other one is %q", got)
	}
}

func TestStrangersSeeNamesInTheTable(t *testing.T) {
	s := serverOf(busyWorker())
	body := ask(t, s, unknown, http.MethodGet, "/inflight").Body.String()
	if got := lineWith(t, body, "2"); !strings.HasSuffix(got, " - make") {
		t.Errorf("the queued one is %q", got)
	}
	if !strings.HasSuffix(lineWith(t, body, "running"), ", new execs are refused") {
		t.Errorf("a stranger is told why, or of a reason:\n%s", body)
	}
}

func TestTextOfExecs(t *testing.T) {
	s := serverOf(busyWorker())
	if got := lineWith(t, textOf(t, s, "/execs"), "3"); !strings.HasPrefix(got, "3 signal SIGKILL oom ") || !strings.Contains(got, " ago 30s 1.0s 4.9 KiB 6 B 1.5s 64.0 MiB ") {
		t.Errorf("%q", got)
	}
}

// A receipt of what never ran has no times of a run, and its text no nonsense.
func TestTextOfAnExecThatNeverRan(t *testing.T) {
	s := serverOf(&fakeWorker{receipts: []observe.Receipt{{Exec: observe.Exec{ID: observe.SandboxID(3)}, Outcome: observe.OutcomeRefused, EndedBy: observe.EndedByDrain}}})
	for _, target := range []string{"/execs", "/execs/3"} {
		if text := textOf(t, s, target); !strings.Contains(text, "refused") || strings.Contains(text, "0001-01-01") || strings.Contains(text, "2562047h") {
			t.Errorf("%s:\n%s", target, text)
		}
	}
}

func TestViewOfAQueuedExec(t *testing.T) {
	v := serverOf(&fakeWorker{}).inflight(observe.Inflight{Exec: fakeExec(2), State: observe.StateQueued, QueuePosition: 1}, fixtureNow, unknown)
	if v.QueueMS != 60_000 || v.AgeMS != 60_000 || *v.QueuePosition != 1 {
		t.Errorf("it waits: %+v", v)
	}
	if v.RunMS != nil || v.IdleMS != nil || v.PID != nil || v.PGID != nil || v.StartedAt != nil || v.DeadlineAt != nil || v.FirstByteMS != nil || v.LastOutputAt != nil {
		t.Errorf("it has not begun: %+v", v)
	}
}

func TestViewOfARunningExec(t *testing.T) {
	v := serverOf(&fakeWorker{}).inflight(busyWorker().inflight[0], fixtureNow, operator)
	for name, c := range map[string]struct{ got, want int64 }{
		"queue_ms":      {v.QueueMS, 1000},   // to the slot, not until now
		"run_ms":        {*v.RunMS, 56_000},  // to the end of main, not until now
		"idle_ms":       {*v.IdleMS, 41_000}, // since its last output
		"first_byte_ms": {*v.FirstByteMS, 20},
		"timeout_s":     {v.TimeoutS, 300},
		"pgid":          {int64(*v.PGID), int64(*v.PID)},
	} {
		if c.got != c.want {
			t.Errorf("%s is %d, want %d", name, c.got, c.want)
		}
	}
	if want := *when(ago(58*time.Second - 5*time.Minute)); *v.DeadlineAt != want {
		t.Errorf("the deadline counts from its start: %s, want %s", *v.DeadlineAt, want)
	}
	if v.Abort.Source != "admin" || v.Abort.Reason != "preview of too slow" || v.Etag != "101" || v.CommandHash != "0123456789ab" {
		t.Errorf("%+v, %+v", v, v.Abort)
	}
}

// Null is not 0: a main that was killed has no exit code, one that exited has no
// signal.
func TestViewOfExitAndSignal(t *testing.T) {
	s := serverOf(&fakeWorker{})
	killed := s.receipt(observe.Receipt{PID: 1, ExitCode: -1, Signal: "SIGSEGV"}, operator)
	if killed.ExitCode != nil || *killed.Signal != "SIGSEGV" {
		t.Errorf("%v %v", killed.ExitCode, killed.Signal)
	}
	exited := s.receipt(observe.Receipt{PID: 1}, operator)
	if exited.ExitCode == nil || *exited.ExitCode != 0 || exited.Signal != nil {
		t.Errorf("%v %v", exited.ExitCode, exited.Signal)
	}
	unborn := s.receipt(observe.Receipt{}, operator)
	if unborn.ExitCode != nil || unborn.PID != nil {
		t.Errorf("%v %v", unborn.ExitCode, unborn.PID)
	}
}

func TestBlocksAreSectors(t *testing.T) {
	v := serverOf(&fakeWorker{}).receipt(observe.Receipt{ReadBlocks: 8, WriteBlocks: 16}, operator)
	if v.IOReadBytes != 4096 || v.IOWriteBytes != 8192 {
		t.Errorf("%d %d", v.IOReadBytes, v.IOWriteBytes)
	}
}

// An abort that comes while its output is drained comes after main's end.
func TestTimelineIsInOrder(t *testing.T) {
	steps := timeline(busyWorker().inflight[0])
	if !slices.IsSortedFunc(steps, func(a, b timelineView) int { return cmp.Compare(a.TMS, b.TMS) }) || len(steps) != 8 {
		t.Errorf("%+v", steps)
	}
}
