package daemon

import (
	"context"
	"sync"

	"execworker/daemon/observe"
	"execworker/daemon/process"
	"execworker/daemon/runner"
)

// runs are the executions that may have processes: from the spawn until nothing
// that came out of it is left.
type runs struct {
	mu     sync.Mutex
	bySeq  map[uint64]started
	byTree map[*process.Tree]started
}

type started struct {
	exec observe.Exec
	run  *runner.Run
}

func newRuns() *runs {
	return &runs{bySeq: make(map[uint64]started), byTree: make(map[*process.Tree]started)}
}

func (r *runs) add(x observe.Exec, run *runner.Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bySeq[x.Seq] = started{x, run}
	r.byTree[run.Tree()] = started{x, run}
}

func (r *runs) remove(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.bySeq[seq]; ok {
		delete(r.byTree, s.run.Tree())
	}
	delete(r.bySeq, seq)
}

// of returns those with these numbers, nil meaning all.
func (r *runs) of(seqs []uint64) (found []started) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seqs == nil {
		for _, s := range r.bySeq {
			found = append(found, s)
		}
		return found
	}
	for _, seq := range seqs {
		if s, ok := r.bySeq[seq]; ok {
			found = append(found, s)
		}
	}
	return found
}

func (r *runs) exec(t *process.Tree) observe.Exec {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byTree[t].exec
}

// Inspect looks at the processes of executions, by their Seq; nil is all that
// are in flight or have left survivors. files adds who holds their pipes. What
// has no process, and whose pipes nobody holds, is not in the answer.
//
// It takes up to 100 ms where there was no look in the last 5 s, for it compares
// two, and a second at most beside that. It ends with ctx: the answer says what
// could not be read for want of time, or is empty.
func (d *Daemon) Inspect(ctx context.Context, seqs []uint64, files bool) map[uint64]observe.Inspection {
	found := d.runs.of(seqs)
	subjects := make([]process.Subject, len(found))
	for i, r := range found {
		subjects[i] = process.Subject{Tree: r.run.Tree(), Pipes: r.run.Pipes()}
	}
	inspections := d.owner.Inspect(ctx, subjects, files)
	answer := make(map[uint64]observe.Inspection, len(inspections))
	for _, r := range found {
		if i, ok := inspections[r.run.Tree()]; ok {
			answer[r.exec.Seq] = inspection(i)
		}
	}
	return answer
}

// Origin says where the process pid comes from, as of now. UID is -1 when it
// cannot be read.
func (d *Daemon) Origin(pid int) observe.Origin { return d.origin(d.owner.Origin(pid)) }

// Holders lists who holds the socket of that inode (what /proc/<pid>/fd shows as
// socket:[inode]). hidden says that a descendant may hold it too: there are
// descriptors that we may not read, or there was no time. It takes a second at
// most, and some milliseconds as a rule.
func (d *Daemon) Holders(inode uint64) (holders []observe.Origin, hidden bool) {
	found, hidden := d.owner.Holders(inode)
	for _, o := range found {
		holders = append(holders, d.origin(o))
	}
	return holders, hidden
}

func (d *Daemon) origin(o process.Origin) observe.Origin {
	x := d.runs.exec(o.Tree)
	return observe.Origin{
		Process: processOf(o.Process), UID: o.UID, Found: o.Found, Descendant: o.Descendant, Exec: x.ID, Seq: x.Seq,
	}
}

func inspection(i process.Inspection) observe.Inspection {
	o := observe.Inspection{At: i.At, Window: i.Window, More: i.More, Unreadable: i.Unreadable}
	for _, p := range i.Processes {
		o.Processes = append(o.Processes, observe.ProcessDetail{
			Process: processOf(p.Process), Main: p.Main, Group: p.Group, Session: p.Session,
			Threads: p.Threads, RSSBytes: p.RSS, CPU: p.CPU, InWindow: p.InWindow,
			Command: p.Command, Call: p.Call, FD: p.FD, File: p.File, LockHolder: processOf(p.LockHolder),
		})
	}
	for _, h := range i.Holders {
		o.Pipes = append(o.Pipes, observe.PipeHolder{
			Process: processOf(h.Process), Command: h.Command, Stream: streamNames[h.Stream],
			FD: h.FD, Writes: h.Writes, Member: h.Member, Session: h.Session,
		})
	}
	return o
}

var streamNames = [3]string{"stdin", "stdout", "stderr"}

func processOf(p process.Process) observe.Process { return processes([]process.Process{p})[0] }
