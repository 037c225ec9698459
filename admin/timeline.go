package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"execworker/daemon/observe"
)

// timelineView is a step of an exec.
type timelineView struct {
	TMS   int64             `json:"t_ms"` // since it was received
	Name  string            `json:"name"`
	Attrs map[string]string `json:"attrs"`
}

// timeline is made of the times that the snapshot has.
func timeline(x observe.Inflight) []timelineView {
	var steps []timelineView
	add := func(name string, at time.Time, attrs map[string]string) {
		if at.IsZero() {
			return
		}
		if attrs == nil {
			attrs = map[string]string{}
		}
		steps = append(steps, timelineView{TMS: ms(at.Sub(x.Exec.ReceivedAt)), Name: name, Attrs: attrs})
	}
	add("received", x.Exec.ReceivedAt, map[string]string{"session": fmt.Sprint(x.Exec.Session)})
	add("dequeued", x.DequeuedAt, nil)
	add("spawned", x.StartedAt, map[string]string{"pid": fmt.Sprint(x.PID)})
	if !x.LastOutputAt.IsZero() {
		add("first_output", x.StartedAt.Add(x.FirstByte), nil)
		add("last_output", x.LastOutputAt, map[string]string{
			"stdout_bytes": fmt.Sprint(x.StdoutBytes), "stderr_bytes": fmt.Sprint(x.StderrBytes),
		})
	}
	if x.Abort != nil {
		add("abort_requested", x.Abort.At, map[string]string{"by": string(x.Abort.By)})
	}
	add("main_ended", x.MainEndedAt, nil)
	add("kill_began", x.KillBeganAt, nil)
	slices.SortStableFunc(steps, func(a, b timelineView) int { return cmp.Compare(a.TMS, b.TMS) })
	return steps
}

// timelineText prints the steps.
func timelineText(t *table, steps []timelineView) {
	t.row("AFTER", "STEP", "WHAT")
	for _, step := range steps {
		var attrs []string
		for key, value := range step.Attrs {
			attrs = append(attrs, key+" "+value)
		}
		slices.Sort(attrs)
		t.row(age(millis(step.TMS)), step.Name, strings.Join(attrs, ", "))
	}
}
