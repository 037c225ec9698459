package process

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Subject is a tree to inspect.
type Subject struct {
	Tree *Tree
	// Pipes are the inodes of main's stdin, stdout and stderr; 0 is none. Both
	// ends of a pipe have the same.
	Pipes [3]uint64
}

// Inspection is what the kernel shows of a tree's processes.
type Inspection struct {
	At        time.Time
	Window    time.Duration // between the looks that InWindow is taken from; 0 if there was only one
	Processes []Detail      // main, and then the busiest; at most 64
	More      int           // members that are not in Processes
	Holders   []Holder      // of the subject's pipes, at most 64
	// Unreadable says what could not be read, a sentence each. It holds numbers and
	// words of ours and the kernel's errors, nothing that a process has chosen.
	Unreadable []string
}

// Detail is a process, looked at closely.
type Detail struct {
	Process
	Main     bool
	Group    int
	Session  int
	Threads  int
	RSS      int64         // bytes; not exact (proc_pid_stat(5))
	CPU      time.Duration // used by all its threads, those that have ended included
	InWindow time.Duration // of that, in the Window
	Command  string        // its arguments, at most 512 bytes: untrusted
	Call     string        // that its first thread sleeps in; empty when in none, or unreadable
	FD       int           // that the call is about; -1 is none
	File     string        // what FD is, as /proc/<pid>/fd shows it: untrusted
	// LockHolder holds the file lock that Call waits for; its PID is 0 when it
	// waits for none or that is not known.
	LockHolder Process
}

// Holder is a process that has one of a subject's pipes open.
type Holder struct {
	Process
	Command string // as in Detail
	Stream  int    // of the subject: 0, 1 or 2
	FD      int    // of the holder; the lowest, and rather one that can be written to
	Writes  bool
	Member  bool // of the subject's tree
	Session int
}

const (
	sampleLeast = 100 * time.Millisecond // of a Window: the clocks are exact, the turns of processes are not
	sampleMost  = 5 * time.Second
	inspectMost = time.Second           // that the reading takes, waiting not counted
	inspectRest = 50 * time.Millisecond // of a caller's time, that is not spent on waiting for a Window
	listedMost  = 64
)

// inspector has what one inspection leaves for the next. Whoever has the turn
// may touch it.
type inspector struct {
	turn    chan struct{} // one place: a lock that can be waited for with a context
	samples map[*Tree]*samples
	last    answer
}

// question is what Inspect was asked.
type question struct {
	subjects []Subject // by tag
	files    bool
}

// answer is what it said. Its maps and slices are not changed any more.
type answer struct {
	question
	began time.Time
	found map[*Tree]Inspection
	cut   bool // there was no time for all of it
}

// Inspect looks at the processes of all subjects with one scan of the process
// table. files adds who holds their pipes. A tree that is not in the answer has
// no process, nor has its pipes.
//
// To see who uses the CPU it compares with an earlier look, 100 ms to 5 s old;
// without one it waits for 100 ms, if ctx has that time, and looks again. One
// caller reads at a time, and callers with the same question at the same time
// share an answer, which must not be changed. The reading ends with ctx or after
// a second, and what there was no time for is said to be unreadable. The answer
// is nil if ctx ends before.
func (o *Owner) Inspect(ctx context.Context, subjects []Subject, files bool) map[*Tree]Inspection {
	q := question{subjects: slices.Clone(subjects), files: files}
	slices.SortFunc(q.subjects, func(a, b Subject) int { return cmp.Compare(a.Tree.tag, b.Tree.tag) })
	q.subjects = slices.CompactFunc(q.subjects, func(a, b Subject) bool { return a.Tree == b.Tree })
	if len(q.subjects) == 0 {
		return nil
	}
	asked := time.Now()
	for turns := 0; ; turns++ {
		select {
		case o.inspector.turn <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		found, wait := o.inspectInTurn(ctx, q, asked, turns)
		<-o.inspector.turn
		if wait == 0 {
			return found
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// inspectInTurn answers, or says how long to wait before that.
func (o *Owner) inspectInTurn(ctx context.Context, q question, asked time.Time, turns int) (map[*Tree]Inspection, time.Duration) {
	i := &o.inspector
	if i.last.serves(q, asked) {
		return i.last.found, 0
	}
	began := time.Now()
	until, ends := ctx.Deadline()
	inTime := func(wait time.Duration) bool { return turns < 2 && (!ends || until.Sub(began) > wait+inspectRest) }
	if !ends || until.Sub(began) > inspectMost {
		until = began.Add(inspectMost)
	}
	wait, known := i.wait(q.subjects, began)
	switch {
	case known && wait == 0:
	case known && inTime(wait):
		return nil, wait
	case !known && inTime(sampleLeast):
		o.sample(q.subjects, until)
		return nil, sampleLeast
	}
	a := o.examine(ctx, q, until)
	a.began = began
	i.last = a
	return a.found, 0
}

// serves says that a is an answer to q as of now: it was begun after q was asked.
func (a *answer) serves(q question, asked time.Time) bool {
	return !a.cut && a.began.After(asked) && a.files == q.files && slices.Equal(a.subjects, q.subjects)
}

// wait is how long to wait until every subject has a look that is old enough to
// be compared with. known is false if one has none that ever will be.
func (i *inspector) wait(subjects []Subject, now time.Time) (wait time.Duration, known bool) {
	for _, s := range subjects {
		left, ok := i.samples[s.Tree].wait(now)
		if !ok {
			return 0, false
		}
		wait = max(wait, left)
	}
	return wait, true
}

// passedOrDone says that there is no time left.
func passedOrDone(ctx context.Context, until time.Time) bool {
	return ctx.Err() != nil || passed(until)
}
