package process

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// gaps collects what could not be read, once a kind and with the processes that
// it is about.
type gaps struct {
	list []gap
}

type gap struct {
	what string // a noun
	why  error
	pids []int // the first gapNames of them; 0 is about none in particular
	more int
}

const gapNames = 16 // processes that a sentence names

var (
	errNoTime   = errors.New("there was no time")
	errNotShown = errors.New("the kernel does not show it")
	errMayHang  = errors.New("not asked for, because reading it could hang in state D")
	errNoFile   = errors.New("this kernel has no such file")
)

func (g *gaps) add(what string, why error, pid int) {
	for i := range g.list {
		if had := &g.list[i]; had.what == what && had.why == why {
			switch {
			case slices.Contains(had.pids, pid):
			case len(had.pids) == gapNames:
				had.more++
			default:
				had.pids = append(had.pids, pid)
			}
			return
		}
	}
	g.list = append(g.list, gap{what: what, why: why, pids: []int{pid}})
}

// sentences reads: "the system call of pid 812: permission denied".
func (g *gaps) sentences() []string {
	var all []string
	for _, gap := range g.list {
		var pids []string
		for _, pid := range gap.pids {
			pids = append(pids, strconv.Itoa(pid))
		}
		of := " of pid "
		if len(pids) > 1 {
			of = " of pids "
		}
		of += strings.Join(pids, ", ")
		if gap.more > 0 {
			of += fmt.Sprintf(" and %d more", gap.more)
		}
		if gap.pids[0] == 0 {
			of = ""
		}
		all = append(all, gap.what+of+": "+gap.why.Error())
	}
	return all
}

// denied says that we may not: not the owner, not its tracer, or a process that
// has made itself undumpable (ptrace(2), "Ptrace access mode checking").
func denied(err error) bool { return err == unix.EACCES || err == unix.EPERM }
