package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"execworker/daemon/observe"
)

// text is an exec in flight for eyes: the reason first, then what it rests on.
func (d inflightDetail) text(t *table) {
	t.line("req_id %s: %s", d.ReqID, d.Why.Sentence)
	t.line("")
	t.row("command", d.commandText(200))
	t.row("state", d.State)
	t.row("output", fmt.Sprintf("stdout %s, stderr %s, %d chunks, send blocked %s", size(d.StdoutBytes), size(d.StderrBytes), d.Chunks, age(millis(d.SendBlockedMS))))
	if d.DeadlineAt != nil {
		t.row("deadline", *d.DeadlineAt)
	}
	t.row("etag", d.Etag)
	t.line("")
	t.row("AFTER", "STEP", "WHAT")
	for _, step := range d.Timeline {
		var attrs []string
		for key, value := range step.Attrs {
			attrs = append(attrs, key+" "+value)
		}
		slices.Sort(attrs)
		t.row(age(millis(step.TMS)), step.Name, strings.Join(attrs, ", "))
	}
	if len(d.Processes) > 0 {
		t.line("")
		processTree(t, d.Processes, d.WindowMS)
	} else {
		for _, line := range d.Evidence {
			t.line("  %s", line)
		}
	}
	if d.More > 0 {
		t.line("and %d processes more", d.More)
	}
	d.holders(t)
	for _, line := range d.Unreadable {
		t.line("unreadable: %s", printable(line))
	}
	t.line("")
	t.line("stop it: curl -X POST .../admin/inflight/%s/abort, or execworker abort %s", d.ReqID, d.ReqID)
}

// holders prints who keeps the output from ending. While main lives that is no
// news of the exec's own processes.
func (d inflightDetail) holders(t *table) {
	first := true
	for _, h := range d.Pipes {
		if d.State == string(observe.StateRunning) && h.Member {
			continue
		}
		if first {
			t.line("")
			t.row("STREAM", "HELD BY", "FD", "CAN", "OF THIS EXEC", "COMMAND")
			first = false
		}
		can, member := "read", "no"
		if h.Writes {
			can = "write"
		}
		if h.Member {
			member = "yes"
		}
		t.row(h.Stream, fmt.Sprintf("pid %d", h.Process.PID), h.FD, can, member, commandOr(h.Command, h.Process.Comm))
	}
}

// processTree prints processes below their parents.
func processTree(t *table, all []processDetailView, windowMS int64) {
	t.row("PID", "STATE", "CPU", "RSS", "THREADS", "COMMAND", "WAITS")
	all = slices.SortedFunc(slices.Values(all), func(a, b processDetailView) int { return cmp.Compare(a.PID, b.PID) })
	listed := make(map[int]bool, len(all))
	for _, p := range all {
		listed[p.PID] = true
	}
	var print func(parent, depth int)
	row := func(p processDetailView, depth int) {
		cpu := ""
		if windowMS > 0 {
			cpu = fmt.Sprintf("%d%%", p.InWindow*100/windowMS)
		}
		t.row(strings.Repeat(". ", min(depth, 8))+fmt.Sprint(p.PID), p.State, cpu, size(p.RSSBytes), p.Threads,
			commandOr(p.Command, p.Comm), p.Waits)
	}
	print = func(parent, depth int) {
		for _, p := range all {
			if p.PPID == parent && p.PID != parent {
				row(p, depth)
				print(p.PID, depth+1)
			}
		}
	}
	for _, p := range all {
		if !listed[p.PPID] {
			row(p, 0)
			print(p.PID, 1)
		}
	}
}

func commandOr(command *string, comm string) string {
	if command == nil {
		return comm
	}
	return quoted(*command, 50)
}
