package process

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
)

// nameLockHolders says, of those that wait for a file lock, who has it.
func nameLockHolders(all []*examined) {
	var holders map[int]int // read once, and only if somebody waits
	for _, s := range all {
		for i := range s.Processes {
			p := &s.Processes[i]
			if p.Call != "flock" && p.Call != "fcntl" {
				continue
			}
			if holders == nil {
				var err error
				if holders, err = lockHolders(); err != nil {
					s.gaps.add("who holds a file lock", err, p.PID)
					return
				}
			}
			if pid := holders[p.PID]; pid > 0 {
				p.LockHolder, _ = describe(pid, 0) // it may have let go and ended
			}
		}
	}
}

func lockHolders() (map[int]int, error) {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseLocks(f)
}

// parseLocks maps the numbers of those that wait to those that hold, as
// /proc/locks has them (proc_locks(5)): a lock, and below it, with an arrow and
// the same ordinal, who waits for it. An open file description that holds one
// has no process (-1), and nor has one of another PID namespace.
func parseLocks(r io.Reader) (map[int]int, error) {
	waits := make(map[int]int)
	lines := bufio.NewScanner(r)
	ordinal, holder := "", 0
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		arrow := len(f) > 1 && f[1] == "->"
		if arrow {
			f = append(f[:1], f[2:]...)
		}
		if len(f) < 5 {
			continue
		}
		pid, err := strconv.Atoi(f[4])
		switch {
		case err != nil:
		case !arrow:
			ordinal, holder = f[0], pid
		case f[0] == ordinal:
			waits[pid] = holder
		}
	}
	return waits, lines.Err()
}
