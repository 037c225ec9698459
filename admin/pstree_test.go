package admin

import (
	"strings"
	"testing"
)

func TestProcessTreeIndentsChildren(t *testing.T) {
	view := func(pid, ppid int) processDetailView {
		return processDetailView{processView: processView{PID: pid, PPID: ppid, State: "S", Comm: "p"}, InWindow: int64(pid)}
	}
	for _, c := range []struct {
		name     string
		all      []processDetailView
		windowMS int64
		want     []string // the first column
		cpu      string   // of the first row
	}{
		{"a line of descent, however it came", []processDetailView{view(12, 11), view(10, 1), view(11, 10)}, 100, []string{"10", ". 11", ". . 12"}, "10%"},
		{"children by number", []processDetailView{view(10, 1), view(12, 10), view(11, 10)}, 0, []string{"10", ". 11", ". 12"}, "-"},
		{"an orphan is a root of its own", []processDetailView{view(10, 1), view(11, 10), view(20, 1)}, 100, []string{"10", ". 11", "20"}, "10%"},
		{"a ring", []processDetailView{view(10, 11), view(11, 10)}, 100, []string{"10", ". 11"}, "10%"},
		{"its own parent", []processDetailView{view(10, 10)}, 100, []string{"10"}, "10%"},
	} {
		var text table
		processTree(&text, c.all, c.windowMS)
		lines := strings.Split(strings.TrimSpace(string(text.bytes())), "\n")[1:]
		if len(lines) != len(c.want) {
			t.Errorf("%s: %q", c.name, lines)
			continue
		}
		for i, line := range lines {
			if !strings.HasPrefix(line, c.want[i]+"  ") {
				t.Errorf("%s: line %d is %q, want %q", c.name, i, line, c.want[i])
			}
		}
		if fields := strings.Fields(lines[0]); fields[2] != c.cpu {
			t.Errorf("%s: %q, CPU %s", c.name, lines[0], c.cpu)
		}
	}
}
