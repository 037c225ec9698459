package process

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// oomScore is the oom_score_adj for trees: when memory is short, the kernel
// shall end them before it ends this program. shielded says that this program
// has a negative one, which no main may have even for a moment.
func oomScore() (score []byte, shielded bool) {
	var buf [16]byte
	own := 0
	if b, err := readProc(unix.Getpid(), "oom_score_adj", buf[:]); err == nil && len(b) > 1 {
		own, _ = strconv.Atoi(string(b[:len(b)-1]))
	}
	return strconv.AppendInt(nil, int64(min(1000, max(0, own)+100)), 10), own < 0
}

// expose raises the oom_score_adj of trees whose main has lived for a while.
// Doing it at the spawn would be a seventh of what a quick command costs us,
// and nothing fills the memory so quickly. What they fork later inherits it; what
// they forked while we looked is met the second time, for there are two. A sweep
// does not wait for that: the look ends when there is one, and comes again.
func (o *Owner) expose(trees []*Tree) {
	if len(trees) == 0 {
		return
	}
	tags := make(map[uint64]bool, len(trees))
	for _, t := range trees {
		tags[t.tag] = true
	}
	whole := o.keeper.table.each(func(e entry) bool {
		if _, outside := o.keeper.outside[e]; outside {
			return true
		}
		if o.sweepWaits() {
			return false
		}
		if tag, err := o.kernel.tagOf(e.pid); err == nil && tags[tag] {
			o.exposeOne(e.pid, tag)
		}
		return true
	})
	if whole {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range trees {
		t.exposed--
	}
}

func (o *Owner) sweepWaits() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.sweeping) > 0
}

// exposeOne asks for the tag again once the file is open: it stands for that
// one process, whoever has the number later.
func (o *Owner) exposeOne(pid int, tag uint64) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // best effort: it has ended, or is of another user
	}
	defer unix.Close(fd)
	if now, err := o.kernel.tagOf(pid); err == nil && now == tag {
		_, _ = unix.Write(fd, o.oomScore)
	}
}
