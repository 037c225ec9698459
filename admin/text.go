package admin

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// table writes text for eyes: aligned columns, and lines between them.
type table struct {
	out bytes.Buffer
	tab *tabwriter.Writer
}

// row adds one line of columns.
func (t *table) row(columns ...any) {
	if t.tab == nil {
		t.tab = tabwriter.NewWriter(&t.out, 0, 8, 2, ' ', 0)
	}
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = fmt.Sprint(c)
		if cells[i] == "" {
			cells[i] = "-"
		}
	}
	fmt.Fprintln(t.tab, strings.Join(cells, "\t"))
}

// line ends the columns and adds a line of its own.
func (t *table) line(format string, args ...any) {
	t.flush()
	fmt.Fprintf(&t.out, format+"\n", args...)
}

func (t *table) flush() {
	if t.tab != nil {
		t.tab.Flush()
		t.tab = nil
	}
}

func (t *table) bytes() []byte {
	t.flush()
	return t.out.Bytes()
}

// age is a duration for eyes: 41s, 3m20s, 2h5m.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return d.Truncate(time.Second).String()
	}
	return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
}

// size is a number of bytes for eyes: 812 B, 4.0 KiB.
func size(n int64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, u := float64(n)/(1<<10), 0
	for v >= 1<<10 && u < len(units)-1 {
		v, u = v/(1<<10), u+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[u])
}
