package process

import (
	"time"

	"golang.org/x/sys/unix"
)

// samples are two looks at the CPU times of a tree, so that there is one that
// is old enough however often somebody asks. A nil one has none.
type samples struct {
	older, newer sample
}

type sample struct {
	at  time.Time
	cpu map[incarnation]time.Duration
}

// incarnation tells a process from the next one of its number.
type incarnation struct {
	pid     int
	started int64
}

func (m met) incarnation() incarnation { return incarnation{m.pid, m.stat.started} }

// base is the newest look that is old enough, and not too old.
func (s *samples) base(now time.Time) (base sample, ok bool) {
	if s == nil {
		return sample{}, false
	}
	base = s.newer
	if now.Sub(base.at) < sampleLeast {
		base = s.older
	}
	age := now.Sub(base.at)
	return base, age >= sampleLeast && age <= sampleMost
}

// wait is how long until there is a base; false if the looks there are will
// never be one.
func (s *samples) wait(now time.Time) (time.Duration, bool) {
	if _, ok := s.base(now); ok {
		return 0, true
	}
	if s == nil || now.Sub(s.newer.at) >= sampleLeast {
		return 0, false
	}
	return sampleLeast - now.Sub(s.newer.at), true
}

// add keeps a look. One that came soon after the last takes its place only once
// that can serve as a base.
func (s *samples) add(look sample) {
	if look.at.Sub(s.newer.at) >= sampleLeast {
		s.older, s.newer = s.newer, look
	}
}

// sample looks at the CPU times of all subjects, for a later look to be compared
// with.
func (o *Owner) sample(subjects []Subject, until time.Time) {
	members, _ := o.roll(treesOf(subjects), until)
	for _, s := range subjects {
		o.inspector.keep(s.Tree, take(members[s.Tree]))
	}
}

func (i *inspector) keep(t *Tree, look sample) {
	if i.samples == nil {
		i.samples = make(map[*Tree]*samples)
	}
	if i.samples[t] == nil {
		i.samples[t] = new(samples)
	}
	i.samples[t].add(look)
}

// forget drops what can be no base any more.
func (i *inspector) forget(now time.Time) {
	for t, s := range i.samples {
		if now.Sub(s.newer.at) > sampleMost {
			delete(i.samples, t)
		}
	}
}

func take(members []met) sample {
	look := sample{at: time.Now(), cpu: make(map[incarnation]time.Duration, len(members))}
	for _, m := range members {
		look.cpu[m.incarnation()] = m.cpuTime()
	}
	return look
}

// since is what the process m has used since base; false if base does not know
// it and it had begun before.
func (s sample) since(base sample, m met) (time.Duration, bool) {
	now := s.cpu[m.incarnation()]
	before, known := base.cpu[m.incarnation()]
	if !known && sinceBoot(m.stat.started).Before(base.at.Add(-time.Second/ticksPerSecond)) {
		return 0, false
	}
	return max(0, now-before), true
}

// cpuTime is what all threads of a process have used, in nanoseconds where the
// kernel lets us read its clock: anybody may (clock_getcpuclockid(3)). The
// clock's number is made as MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) of
// include/linux/posix-timers.h makes it.
func (m met) cpuTime() time.Duration {
	const cpuclockSched = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^m.pid<<3|cpuclockSched), &ts); err == nil {
		return time.Duration(ts.Nano())
	}
	return time.Duration(m.stat.cpu) * (time.Second / ticksPerSecond)
}

func treesOf(subjects []Subject) []*Tree {
	trees := make([]*Tree, len(subjects))
	for i, s := range subjects {
		trees[i] = s.Tree
	}
	return trees
}
