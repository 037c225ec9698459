package daemon

import (
	"context"
	"crypto/sha256"
	"time"

	"execworker/daemon/observe"
	"execworker/daemon/process"
	"execworker/daemon/runner"

	"golang.org/x/sys/unix"
)

// slot runs x, and then whatever the ledger gives it next.
func (d *Daemon) slot(x *execution) {
	for x != nil {
		<-x.judged
		x = d.run(x)
	}
}

// run takes x from its slot to its terminal frame and returns what has the slot
// next.
func (d *Daemon) run(x *execution) (next *execution) {
	defer x.cancel(errOver)
	taken := time.Now()
	x.meter.dequeuedAt.Store(taken.UnixNano())
	r := observe.Receipt{Exec: x.exec, ExitCode: -1, Collided: x.collided}
	r.Phases.Queue = taken.Sub(x.exec.ReceivedAt)
	x.event(observe.Dequeued{Exec: x.exec, Waited: r.Phases.Queue})

	var o outcome
	oom := d.countOOM()
	workspace, run, err := d.start(x)
	if err != nil {
		o = spawnFailed(err)
		if cause := context.Cause(x.ctx); cause != nil {
			x.reportAbort(cause)
			o = x.stopped(cause)
		}
		workspace.release()
	} else {
		r.Phases.Spawn = run.StartedAt().Sub(taken)
		o = x.follow(run, &r, oom)
	}
	x.lane.flush(x.kept.take(), x.waiting[0])
	// Recorded first, then sent: a frame that is lost with its session is
	// replayed, and a redelivery that comes right behind it is not a join.
	next, heir, waited, verdict := d.ledger.finish(x, o)
	if !x.lane.end(o.frame(x.reqID)) {
		x.session.end(errWedged)
	}
	x.close(o, r)
	if run != nil {
		d.after.Go(func() {
			d.survivors.follow(x, run, o.kind == observe.OutcomeUncontained)
			d.runs.remove(x.exec.Seq)
			workspace.release()
		})
	}
	if heir != nil {
		<-waited
		heir.session.reply(heir, verdict)
	}
	return next
}

// start makes the workspace and spawns the command.
func (d *Daemon) start(x *execution) (w *workspace, run *runner.Run, err error) {
	if err := context.Cause(x.ctx); err != nil {
		return nil, nil, err
	}
	w, err = d.workspaces.enter(x.request.GetWorkspaceKey())
	if err != nil {
		return nil, nil, err
	}
	if d.cfg.HashOutput {
		x.hashes = [2]outputHash{{sha256.New()}, {sha256.New()}}
	}
	began := time.Now()
	run, err = runner.Start(d.owner, runner.Command{
		Text:    x.request.GetCommand(),
		Stdin:   x.request.GetStdin(),
		Dir:     w.dir(),
		Env:     x.environ(),
		Timeout: x.exec.Timeout,
	}, x)
	x.request = nil // a large one must not live as long as the command
	if err != nil {
		return w, nil, err
	}
	d.runs.add(x.exec, run)
	x.meter.pid.Store(int64(run.PID()))
	x.meter.startedAt.Store(run.StartedAt().UnixNano())
	d.ledger.setState(x, observe.StateRunning)
	x.event(observe.Spawned{Exec: x.exec, PID: run.PID(), Took: run.StartedAt().Sub(began)})
	return w, run, nil
}

// follow waits until the run is over and writes down how it went.
func (x *execution) follow(run *runner.Run, r *observe.Receipt, oom oomCount) outcome {
	res := run.Wait(x.ctx, x)
	r.PID, r.StartedAt = run.PID(), run.StartedAt()
	r.PipeHeld = res.Held
	r.Phases.Run, r.Phases.Drain, r.Phases.Kill = res.Ran, res.Drained, res.Killed
	r.UserCPU = time.Duration(res.Exit.Rusage.Utime.Nano())
	r.SystemCPU = time.Duration(res.Exit.Rusage.Stime.Nano())
	r.MaxRSSBytes = res.Exit.Rusage.Maxrss << 10 // getrusage(2): in KiB
	r.ReadBlocks, r.WriteBlocks = res.Exit.Rusage.Inblock, res.Exit.Rusage.Oublock
	r.StdoutHash, r.StderrHash = x.hashes[0].sum(), x.hashes[1].sum()
	r.Containment = x.d.containment(res.Sweep)
	r.OOM = oomEvidence(oom, x.d.countOOM(), res)
	switch {
	case !res.Reaped: // it is not contained
	case res.Exit.Signal == 0:
		r.ExitCode = res.Exit.Code
	default:
		r.Signal = unix.SignalName(res.Exit.Signal)
	}
	o := x.outcome(res)
	if o.kind == observe.OutcomeSignal && r.OOM != nil && r.OOM.Confidence == oomHigh {
		o.by = observe.EndedByOOM
	}
	o.truncated = x.kept.truncated()
	return o
}

// outcome decides by what was done.
func (x *execution) outcome(res runner.Result) outcome {
	switch {
	case res.Cause != nil && !res.Sweep.Proven():
		o := notContained(len(res.Sweep.Left))
		o.by = endedBy(res.Cause)
		return o
	case x.lane.lost(): // the drain did not wait for the relay to take it
		return x.stopped(errDrained{})
	case res.ByItself && res.Exit.Signal != 0:
		return outcome{kind: observe.OutcomeSignal, by: observe.EndedByUnknown}
	case res.ByItself:
		return outcome{kind: observe.OutcomeExit, by: observe.EndedBySelf, code: res.Exit.Code}
	}
	return x.stopped(res.Cause)
}

// close fills the rest of the receipt in, files it and reports the end.
func (x *execution) close(o outcome, r observe.Receipt) {
	m := &x.meter
	if x.kept != nil {
		r.StdoutCut, r.StderrCut = x.kept.streams[0].cut, x.kept.streams[1].cut
		for i := range m.chunks {
			m.chunks[i].Store(x.kept.chunks[i])
		}
	}
	r.Outcome, r.EndedBy, r.Reason, r.Error, r.EndedAt = o.kind, o.by, o.reason, o.message, time.Now()
	r.StdoutBytes, r.StderrBytes = m.stdout.Load(), m.stderr.Load()
	r.StdoutChunks, r.StderrChunks = m.chunks[0].Load(), m.chunks[1].Load()
	r.Chunks = r.StdoutChunks + r.StderrChunks
	r.LargestPiece = max(m.largest[0].Load(), m.largest[1].Load())
	r.Phases.SendBlocked, _ = m.sendBlocked()
	r.LongestBlock = time.Duration(max(m.waits[0].most.Load(), m.waits[1].most.Load()))
	if at := m.lastByteAt.Load(); at != 0 {
		r.LastOutputAt = time.Unix(0, at)
	}
	if at := m.firstByteAt.Load(); at != 0 {
		r.Phases.FirstByte = time.Duration(at - r.StartedAt.UnixNano())
	}
	x.d.receipts.add(r)
	x.event(observe.Ended{Receipt: r})
}

// conclude answers an exec that never began: aborted, lost or refused while it
// waited. The ledger has let go of it.
func (x *execution) conclude(o outcome) {
	<-x.judged
	x.session.answer(o.frame(x.reqID))
	x.close(o, observe.Receipt{Exec: x.exec, ExitCode: -1, Phases: observe.Phases{Queue: time.Since(x.exec.ReceivedAt)}})
	x.cancel(errOver)
	x.request = nil
}

// containment is what a sweep found, in the words for observers.
func (d *Daemon) containment(s process.Sweep) observe.Containment {
	return observe.Containment{Level: d.owner.Level(), Rounds: s.Rounds, Reaped: s.Reaped, Left: processes(s.Left)}
}

func processes(ps []process.Process) []observe.Process {
	all := make([]observe.Process, len(ps))
	for i, p := range ps {
		all[i] = observe.Process{PID: p.PID, PPID: p.PPID, Name: p.Name, State: p.State, WaitsIn: p.WaitChannel, StartedAt: p.StartedAt}
	}
	return all
}
