package admin

import (
	"testing"

	"execworker/daemon/observe"
)

// Of several children the one that explains most is named, whichever came first:
// who waits for another member of a pipeline explains least.
func TestWhoExplainsMostIsNamed(t *testing.T) {
	child := func(state, call, channel string, changes ...func(*observe.ProcessDetail)) func(pid int) observe.ProcessDetail {
		return func(pid int) observe.ProcessDetail { return proc(pid, 10, "p", state, call, channel, changes...) }
	}
	type form struct {
		name string
		of   func(pid int) observe.ProcessDetail
	}
	order := [][]form{ // those in one line are alike
		{{"stopped", child("T", "", "")}, {"traced", child("t", "", "")}},
		{{"disk", child("D", "write", "")}},
		{{"computing", child("R", "", "", used(90))}},
		{{"ready", child("R", "", "")}},
		{{"lock", child("S", "flock", "", on(3, "/l"))}, {"terminal", child("S", "read", "", on(0, "/dev/pts/1"))}},
		{{"FIFO", child("S", "openat", "wait_for_partner")}},
		{{"timer", child("S", "nanosleep", "")}, {"connect", child("S", "connect", "", on(3, "socket:[1]"))}, {"receive", child("S", "recvfrom", "", on(3, "socket:[1]"))}},
		{{"futex", child("S", "futex", "")}, {"signal", child("S", "pause", "")}, {"unknown", child("S", "", "")}},
		{{"events", child("S", "epoll_wait", "", on(3, ""))}, {"accept", child("S", "accept4", "", on(3, "socket:[1]"))}},
		{{"write", child("S", "write", "", on(1, "pipe:[1]"))}, {"send", child("S", "sendto", "", on(3, "socket:[1]"))}},
		{{"read", child("S", "read", "", on(0, "pipe:[1]"))}},
	}
	for i, line := range order {
		for _, later := range order[i+1:] {
			for _, more := range line {
				for _, less := range later {
					for _, pids := range [][2]int{{11, 12}, {12, 11}} { // the higher number is the younger
						seen := look(waitsForChild, more.of(pids[0]), less.of(pids[1]))
						if found, ends, ok := familyOf(seen).culprit(seen.Window); !ok || ends != 2 || found.process.PID != pids[0] {
							t.Errorf("%s (pid %d) explains more than %s, and pid %d of %d is named", more.name, pids[0], less.name, found.process.PID, ends)
						}
					}
				}
			}
		}
	}
}
