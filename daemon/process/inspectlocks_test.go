package process

import (
	"maps"
	"strings"
	"testing"
)

func TestLockTableNamesWhoHoldsWhatIsWaitedFor(t *testing.T) {
	for _, c := range []struct {
		name, table string
		want        map[int]int
	}{
		{"nobody waits", "1: FLOCK  ADVISORY  WRITE 10 fe:00:1 0 EOF\n", map[int]int{}},
		{"two wait", "1: FLOCK  ADVISORY  WRITE 10 fe:00:1 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 11 fe:00:1 0 EOF\n1: -> FLOCK  ADVISORY  READ 12 fe:00:1 0 EOF\n", map[int]int{11: 10, 12: 10}},
		{"of two locks", "1: POSIX  ADVISORY  READ 10 fe:00:1 0 99\n2: POSIX  ADVISORY  WRITE 20 fe:00:1 100 EOF\n2: -> POSIX  ADVISORY  WRITE 21 fe:00:1 0 EOF\n", map[int]int{21: 20}},
		{"an open file holds it", "1: OFDLCK ADVISORY  WRITE -1 fe:00:1 0 EOF\n1: -> POSIX  ADVISORY  WRITE 21 fe:00:1 0 EOF\n", map[int]int{21: -1}},
		{"nonsense", "\n->\n1:\n1: -> x\nx x x x x\n1: -> FLOCK ADVISORY WRITE 7\n", map[int]int{}},
	} {
		if got, err := parseLocks(strings.NewReader(c.table)); err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
}
