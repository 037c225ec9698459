package daemon

import (
	"context"
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
	defer x.cancel(nil)
	taken := time.Now()
	r := observe.Receipt{Exec: x.exec, ExitCode: -1, Collided: x.collided}
	r.Phases.Queue = taken.Sub(x.exec.ReceivedAt)
	x.event(observe.Dequeued{Exec: x.exec, Waited: r.Phases.Queue})

	var o outcome
	workspace, run, err := d.start(x)
	if err != nil {
		o = spawnFailed(err)
		if x.ctx.Err() != nil {
			o = x.stopped(context.Cause(x.ctx))
		}
		workspace.release()
	} else {
		r.Phases.Spawn = run.StartedAt().Sub(taken)
		o = x.follow(run, &r)
	}
	next, heir, waited, verdict := d.ledger.finish(x, o)
	x.end(o, r)
	if run != nil {
		d.after.Go(func() {
			d.survivors.follow(x, run)
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
	began := time.Now()
	run, err = runner.Start(d.owner, runner.Command{
		Text:    x.request.GetCommand(),
		Stdin:   x.request.GetStdin(),
		Dir:     w.dir(),
		Env:     d.cfg.Env,
		Timeout: x.exec.Timeout,
	}, x)
	x.request = nil // a large one must not live as long as the command
	if err != nil {
		return w, nil, err
	}
	x.meter.pid.Store(int64(run.PID()))
	x.meter.startedAt.Store(run.StartedAt().UnixNano())
	d.ledger.setState(x, observe.StateRunning)
	x.event(observe.Spawned{Exec: x.exec, PID: run.PID(), Took: run.StartedAt().Sub(began)})
	return w, run, nil
}

// follow waits until the run is over and writes down how it went.
func (x *execution) follow(run *runner.Run, r *observe.Receipt) outcome {
	res := run.Wait(x.ctx, x)
	r.PID, r.StartedAt = run.PID(), run.StartedAt()
	r.PipeHeld = res.Held
	r.Phases.Run, r.Phases.Drain, r.Phases.Kill = res.Ran, res.Drained, res.Killed
	r.UserCPU = time.Duration(res.Exit.Rusage.Utime.Nano())
	r.SystemCPU = time.Duration(res.Exit.Rusage.Stime.Nano())
	r.MaxRSSBytes = res.Exit.Rusage.Maxrss << 10 // getrusage(2): in KiB
	r.ReadBlocks, r.WriteBlocks = res.Exit.Rusage.Inblock, res.Exit.Rusage.Oublock
	r.Containment.Level = x.d.owner.Level()
	if res.Cause != nil {
		r.Containment = x.d.containment(res.Sweep)
	}
	if res.Exit.Signal == 0 {
		r.ExitCode = res.Exit.Code
	} else {
		r.Signal = unix.SignalName(res.Exit.Signal)
	}
	return x.outcome(res)
}

// outcome decides by what was done.
func (x *execution) outcome(res runner.Result) outcome {
	switch {
	case res.Cause != nil && !res.Sweep.Proven():
		o := notContained(len(res.Sweep.Left))
		o.by = endedBy(res.Cause)
		return o
	case res.ByItself && res.Exit.Signal != 0:
		return outcome{kind: observe.OutcomeSignal, by: observe.EndedByUnknown}
	case res.ByItself:
		return outcome{kind: observe.OutcomeExit, by: observe.EndedBySelf, code: res.Exit.Code, truncated: x.kept.truncated()}
	}
	return x.stopped(res.Cause)
}

// end sends the terminal frame, behind the output, and closes the receipt. The
// ledger knows of the outcome already: a frame that is lost with its session is
// replayed from there.
func (x *execution) end(o outcome, r observe.Receipt) {
	m := &x.meter
	if x.kept != nil {
		slabs := x.kept.take()
		m.chunks.Store(int64(len(slabs[0]) + len(slabs[1])))
		r.StdoutCut, r.StderrCut = x.kept.streams[0].cut, x.kept.streams[1].cut
		x.lane.close(o.frame(x.reqID), slabs[:]...)
	} else {
		x.lane.close(o.frame(x.reqID))
	}
	r.Outcome, r.EndedBy, r.Error, r.EndedAt = o.kind, o.by, o.message, time.Now()
	r.StdoutBytes, r.StderrBytes, r.Chunks = m.stdout.Load(), m.stderr.Load(), m.chunks.Load()
	r.Phases.SendBlocked = time.Duration(m.blocked.Load())
	if at := m.firstByteAt.Load(); at != 0 {
		r.Phases.FirstByte = time.Duration(at - r.StartedAt.UnixNano())
	}
	x.d.receipts.add(r)
	x.event(observe.Ended{Receipt: r})
}

// conclude ends an exec that never began: aborted, lost or refused while it
// waited. The ledger has let go of it.
func (x *execution) conclude(o outcome) {
	<-x.judged
	x.end(o, observe.Receipt{Exec: x.exec, ExitCode: -1, Phases: observe.Phases{Queue: time.Since(x.exec.ReceivedAt)}})
	x.cancel(nil)
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
