package admin

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"execworker/daemon/observe"
)

func TestTimelineHasTheStepsThatTheSnapshotHas(t *testing.T) {
	x := observe.Inflight{Exec: fakeExec(1)} // a minute old
	everything := observe.Inflight{
		Exec: fakeExec(1), PID: 10, DequeuedAt: ago(50 * time.Second), StartedAt: ago(49 * time.Second), FirstByte: 2 * time.Second, LastOutputAt: ago(10 * time.Second),
		StdoutBytes: 5, StderrBytes: 6, MainEndedAt: ago(3 * time.Second), KillBeganAt: ago(time.Second),
		Abort: &observe.AbortRequested{By: observe.EndedByAdmin, Reason: "secret", At: ago(2 * time.Second)},
	}
	silent := everything
	silent.LastOutputAt, silent.FirstByte, silent.Abort = time.Time{}, 0, nil
	for _, c := range []struct {
		name string
		x    observe.Inflight
		want []string
	}{
		{"just received", x, []string{"0 received map[session:3]"}},
		{"everything", everything, []string{
			"0 received map[session:3]", "10000 dequeued map[]", "11000 spawned map[pid:10]", "13000 first_output map[]",
			"50000 last_output map[stderr_bytes:6 stdout_bytes:5]", "57000 main_ended map[]", "58000 abort_requested map[by:admin]", "59000 kill_began map[]",
		}},
		{"no output, no abort", silent, []string{
			"0 received map[session:3]", "10000 dequeued map[]", "11000 spawned map[pid:10]", "57000 main_ended map[]", "59000 kill_began map[]",
		}},
	} {
		var got []string
		for _, step := range timeline(c.x) {
			if step.Attrs == nil {
				t.Errorf("%s: %s has null for attrs", c.name, step.Name)
			}
			got = append(got, fmt.Sprintf("%d %s %v", step.TMS, step.Name, step.Attrs))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}
