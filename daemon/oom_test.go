package daemon

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"execworker/daemon/observe"
	"execworker/daemon/process"
	"execworker/daemon/runner"

	"golang.org/x/sys/unix"
)

func TestOOMEvidence(t *testing.T) {
	at := func(kills int64) oomCount { return oomCount{kills: kills, known: true} }
	died := func(s syscall.Signal) runner.Result {
		return runner.Result{ByItself: true, Reaped: true, Exit: process.Exit{Signal: s}}
	}
	killed := died(unix.SIGKILL)
	killed.ByItself, killed.Cause = false, errors.New("aborted")
	after := died(unix.SIGKILL) // and then what it left was killed
	after.Cause = errors.New("aborted")
	tests := []struct {
		name          string
		before, after oomCount
		res           runner.Result
		want          string // confidence; empty is no evidence
		says          string
	}{
		{"nothing was killed", at(3), at(3), died(unix.SIGKILL), "", ""},
		{"main was", at(3), at(4), died(unix.SIGKILL), oomHigh, "killed 1 process of the worker's cgroup"},
		{"main was, among others", at(3), at(5), died(unix.SIGKILL), oomHigh, "killed 2 processes of"},
		{"main was, before an abort", at(3), at(4), after, oomHigh, "1 process"},
		{"something was, and main exited", at(0), at(1), died(0), oomLow, "may have been another exec's"},
		{"something was, and main died otherwise", at(0), at(1), died(unix.SIGTERM), oomLow, "1 process"},
		{"something was, and main was killed here", at(0), at(2), killed, oomLow, "2 processes"},
		{"the count was unknown before", oomCount{}, at(4), died(unix.SIGKILL), "", ""},
		{"the count is unknown now", at(3), oomCount{kills: 4}, died(unix.SIGKILL), "", ""},
		{"the count went back", at(3), at(2), died(unix.SIGKILL), "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := oomEvidence(test.before, test.after, test.res)
			if got == nil {
				got = new(observe.OOM)
			}
			if got.Confidence != test.want || !strings.Contains(got.Evidence, test.says) {
				t.Errorf("%s: %q, want %s: %q", got.Confidence, got.Evidence, test.want, test.says)
			}
		})
	}
}
