package admin

import (
	"strings"
	"testing"
	"time"

	"execworker/daemon/observe"
)

// plainServer shows what it is told as it is.
func plainServer() *Server {
	return serverOf(&fakeWorker{}, func(o *Options) { o.Preview = asItIs })
}

func TestReceiptIsExplained(t *testing.T) {
	base := observe.Receipt{Exec: fakeExec(1), PID: 10, Phases: observe.Phases{Run: 41 * time.Second, Queue: 3 * time.Second}}
	oom := observe.OOM{Evidence: "while it ran, the kernel killed 1 process"}
	for _, c := range []struct {
		change func(*observe.Receipt)
		says   string
	}{
		{func(r *observe.Receipt) { r.Outcome, r.ExitCode = observe.OutcomeExit, 7 }, "exited with 7 after 41s"},
		{func(r *observe.Receipt) { r.Outcome, r.Signal = observe.OutcomeSignal, "SIGSEGV" }, "died of SIGSEGV after 41s, which the worker did not send"},
		{func(r *observe.Receipt) {
			r.Outcome, r.Signal, r.EndedBy, r.OOM = observe.OutcomeSignal, "SIGKILL", observe.EndedByOOM, &oom
		}, "died of SIGKILL after 41s; while it ran, the kernel killed 1 process"},
		{func(r *observe.Receipt) {
			r.Outcome, r.Signal, r.EndedBy, r.OOM = observe.OutcomeSignal, "SIGSEGV", observe.EndedByUnknown, &oom
		}, "died of SIGSEGV after 41s, which the worker did not send; while it ran, the kernel killed 1 process"},
		{func(r *observe.Receipt) { r.Outcome, r.OOM = observe.OutcomeExit, &oom }, "exited with 0 after 41s; while it ran, the kernel killed 1 process"},
		{func(r *observe.Receipt) { r.Outcome = observe.OutcomeTimeout }, "killed after 41s: it outlived its timeout of 5m0s"},
		{func(r *observe.Receipt) {
			r.Outcome, r.EndedBy, r.Reason = observe.OutcomeAbort, observe.EndedByAdmin, "too \x1b slow"
		}, `aborted by an operator ("too \x1b slow") after 41s`},
		{func(r *observe.Receipt) { r.Outcome, r.EndedBy, r.PID = observe.OutcomeAbort, observe.EndedByCaller, 0 }, "aborted by its caller while it waited, for 3.0s; it never ran"},
		{func(r *observe.Receipt) { r.Outcome, r.Error = observe.OutcomeSpawnError, "spawn: E2BIG" }, "could not be started: spawn: E2BIG"},
		{func(r *observe.Receipt) { r.Outcome, r.Error = observe.OutcomeRefused, "busy: queue full" }, "refused: busy: queue full"},
		{func(r *observe.Receipt) { r.Outcome = observe.OutcomeLost }, "lost with session 3 and killed after 41s"},
		{func(r *observe.Receipt) { r.Outcome, r.PID = observe.OutcomeLost, 0 }, "lost with session 3 before it ran"},
		{func(r *observe.Receipt) { r.Outcome = observe.OutcomeDrained }, "killed after 41s, when the drain time was over"},
		{func(r *observe.Receipt) {
			r.Outcome, r.Containment.Left = observe.OutcomeUncontained, []observe.Process{{PID: 1}}
		}, "killed after 41s, but not proven gone: 1 process is left"},
		{func(r *observe.Receipt) {
			r.Outcome, r.Containment.Left = observe.OutcomeUncontained, make([]observe.Process, 2)
		}, "killed after 41s, but not proven gone: 2 processes are left"},
		{func(r *observe.Receipt) { r.Outcome, r.StdoutCut = observe.OutcomeExit, 1<<20 }, "exited with 0 after 41s; 1.0 MiB of its output were cut"},
		{func(r *observe.Receipt) { r.Outcome, r.PipeHeld = observe.OutcomeExit, true }, "exited with 0 after 41s; something it left held its output open"},
		{func(r *observe.Receipt) {
			r.Outcome, r.Survivors = observe.OutcomeExit, []observe.Process{{PID: 5, Name: "no\nde"}}
		}, `exited with 0 after 41s; it left 1 running: pid 5 "no\nde"`},
		{func(r *observe.Receipt) {
			r.Outcome, r.SurvivorsCut, r.Survivors = observe.OutcomeExit, true, []observe.Process{{PID: 5, Name: "node"}}
		}, "exited with 0 after 41s; it left 1 that were ended too: pid 5 node"},
	} {
		r := base
		c.change(&r)
		got := plainServer().explainReceipt(r, operator)
		if got != c.says {
			t.Errorf("%q, want %q", got, c.says)
		}
		wantPlain(t, why{sentence: got})
	}
}

func TestSurvivorsAreExplained(t *testing.T) {
	x := observe.Survivors{Exec: fakeExec(1), Since: ago(30 * time.Second), Processes: []observe.Process{{PID: 815, Name: "node"}}}
	leader := func(p *observe.ProcessDetail) { p.Session = p.PID }
	for _, c := range []struct {
		name string
		look *observe.Inspection
		says string
	}{
		{"seen", look(proc(815, 1, "node", "S", "epoll_wait", "ep_poll", on(4, ""), leader), proc(816, 815, "idle", "S", "futex", "")), "the command ended 30s ago, and it left pid 816 idle running, which waits for a lock in memory (futex); and 1 more"},
		{"not seen", nil, "the command ended 30s ago; it left pid 815 node"},
		{"ended meanwhile", look(proc(815, 1, "node", "Z", "", "")), "the command ended 30s ago; it left pid 815 node"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := situation{now: fixtureNow, show: asItIs}.survivors(x, c.look)
			wantSentence(t, got, whySurvivor)
			if got.sentence != c.says {
				t.Errorf("%q, want %q", got.sentence, c.says)
			}
		})
	}
}

func TestEvidenceOfSurvivorsNamesSessionsPipesAndGaps(t *testing.T) {
	seen := unread(look(proc(815, 1, "node", "S", "nanosleep", "", func(p *observe.ProcessDetail) { p.Session = 815 })), "the wait channel of pid 815: no\n")
	seen.Pipes = []observe.PipeHolder{holds(815, "node x", "stdout")}
	got := situation{now: fixtureNow, show: asItIs}.survivors(observe.Survivors{Since: ago(time.Second)}, seen)
	all := strings.Join(got.evidence, "\n")
	for _, want := range []string{"pid 815 node: sleeps (nanosleep), CPU 0 %, in a session of its own, for ", "stdout is held by pid 815 node x", `unreadable: the wait channel of pid 815: no\n`} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in\n%s", want, all)
		}
	}
	wantPlain(t, got)
}
