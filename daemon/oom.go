package daemon

import (
	"fmt"

	"execworker/daemon/observe"
	"execworker/daemon/runner"

	"golang.org/x/sys/unix"
)

// How sure a receipt is that the kernel's OOM killer ended its exec.
const (
	oomHigh = "high"
	oomLow  = "low"
)

// oomCount is how many processes the kernel had killed for memory at some time.
type oomCount struct {
	kills int64
	known bool
}

func (d *Daemon) countOOM() oomCount {
	kills, err := d.oomKills.Count()
	return oomCount{kills: kills, known: err == nil}
}

// oomEvidence is what the counts before a run and after its end say about it;
// nil if nothing was killed for memory meanwhile, or that is not known. They are
// the whole cgroup's: what was killed may have been of another exec, unless main
// itself has died as the victims do.
func oomEvidence(before, after oomCount, res runner.Result) *observe.OOM {
	kills := after.kills - before.kills
	if !before.known || !after.known || kills <= 0 {
		return nil
	}
	what := "1 process"
	if kills > 1 {
		what = fmt.Sprintf("%d processes", kills)
	}
	evidence := "while it ran, the kernel killed " + what + " of the worker's cgroup because memory was short"
	if res.ByItself && res.Exit.Signal == unix.SIGKILL {
		return &observe.OOM{
			Evidence:   evidence + ", and main died of a SIGKILL that the worker did not send",
			Confidence: oomHigh,
		}
	}
	return &observe.OOM{Evidence: evidence + "; that may have been another exec's", Confidence: oomLow}
}
