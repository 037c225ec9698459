package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// processTree prints processes below their parents, each once.
func processTree(t *table, all []processDetailView, windowMS int64) {
	t.row("PID", "STATE", "CPU", "RSS", "THREADS", "COMMAND", "WAITS")
	all = slices.SortedFunc(slices.Values(all), func(a, b processDetailView) int { return cmp.Compare(a.PID, b.PID) })
	children := make(map[int][]processDetailView)
	listed := make(map[int]bool, len(all))
	for _, p := range all {
		children[p.PPID] = append(children[p.PPID], p)
		listed[p.PID] = true
	}
	printed := make(map[int]bool, len(all))
	var print func(p processDetailView, depth int)
	print = func(p processDetailView, depth int) {
		if printed[p.PID] {
			return
		}
		printed[p.PID] = true
		cpu := ""
		if windowMS > 0 {
			cpu = fmt.Sprintf("%d%%", p.InWindow*100/windowMS)
		}
		t.row(strings.Repeat(". ", min(depth, 8))+fmt.Sprint(p.PID), p.State, cpu, size(p.RSSBytes), p.Threads, commandOr(p.Command, p.Comm), p.Waits)
		for _, child := range children[p.PID] {
			print(child, depth+1)
		}
	}
	for _, p := range all {
		if !listed[p.PPID] {
			print(p, 0)
		}
	}
	for _, p := range all { // a number given out again while it was read can make a ring
		print(p, 0)
	}
}

func commandOr(command *string, comm string) string {
	if command == nil {
		return comm
	}
	return quoted(*command, 50)
}
