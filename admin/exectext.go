package admin

import (
	"fmt"

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
	timelineText(t, d.Timeline)
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
