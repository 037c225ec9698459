package daemon_test

import (
	"testing"

	"execworker/daemon/observe"
)

func TestAbortOfSurvivorsEndsThemAndLeavesTheReceipt(t *testing.T) {
	found, gone := make(chan observe.SurvivorsFound, 1), make(chan observe.SurvivorsGone, 1)
	d, r, _ := start(t, 1, func(e observe.Event) {
		switch e := e.(type) {
		case observe.SurvivorsFound:
			found <- e
		case observe.SurvivorsGone:
			gone <- e
		}
	})
	s := r.Attach(t)
	s.Exec(t, 1, "setsid sleep 300 >/dev/null 2>&1 & exit 3")
	s.WantEnd(t, 1, 3)
	left := <-found
	seq := left.Exec.Seq
	if d.AbortSurvivors(seq + 1) {
		t.Error("another execution has left some")
	}
	if n := d.Status().Survivors; n != 1 {
		t.Errorf("status counts %d trees", n)
	}
	if !d.AbortSurvivors(seq) {
		t.Error("there is nothing to sweep")
	}
	if x := (<-gone).Exec; x.Seq != seq {
		t.Errorf("those of %d are gone", x.Seq)
	}
	if d.AbortSurvivors(seq) || len(d.Survivors()) != 0 || d.Status().Survivors != 0 {
		t.Error("there is still something to sweep")
	}
	receipt := d.Receipts()[0]
	if receipt.Outcome != observe.OutcomeExit || receipt.EndedBy != observe.EndedBySelf || receipt.ExitCode != 3 ||
		len(receipt.Survivors) != len(left.Processes) || receipt.SurvivorsCut {
		t.Errorf("receipt: %+v", receipt)
	}
}
