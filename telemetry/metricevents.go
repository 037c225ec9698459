package telemetry

import (
	"context"

	"execworker/daemon/observe"
)

// Begin adds nothing to ctx.
func (m *Metrics) Begin(ctx context.Context, _ observe.Exec) context.Context { return ctx }

// Event counts e.
func (m *Metrics) Event(ctx context.Context, e observe.Event) {
	switch e := e.(type) {
	case observe.Judged:
		m.judged(ctx, e.Verdict, e.Reason, e.Collided)
	case observe.Dequeued:
		m.mark(e.Exec.Seq, "")
		m.queue.Record(ctx, e.Waited.Seconds(), m.words.started.record...)
	case observe.Spawned:
		m.spawn.Record(ctx, e.Took.Seconds())
	case observe.FirstOutput:
		m.firstByte.Record(ctx, e.After.Seconds())
	case observe.AbortRequested:
		a := abortion{fromRelay, dequeued}
		if e.By == observe.EndedByAdmin {
			a.source = fromAdmin
		}
		if _, begun := m.marked(e.Exec.Seq); begun {
			a.result = killed
		}
		m.aborts.Add(ctx, 1, m.words.aborts.of(a).add...)
	case observe.KillBegan:
		m.mark(e.Exec.Seq, e.By)
	case observe.KillEnded:
		by, _ := m.marked(e.Exec.Seq)
		m.kill.Record(ctx, e.Took.Seconds(), m.words.kills.of(by).record...)
	case observe.Ended:
		m.ended(ctx, &e.Receipt)
	default:
		m.attaching(ctx, e)
	}
}

// attaching counts the events of sessions.
func (m *Metrics) attaching(ctx context.Context, e observe.Event) {
	switch e := e.(type) {
	case observe.Dialing:
		m.backoff.Record(ctx, 0)
	case observe.Attached:
		m.attempts.Add(ctx, 1, m.words.attached.add...)
	case observe.SessionEnded:
		m.backoff.Record(ctx, e.Next.Seconds())
		switch s := &e.Session; {
		case !s.HelloAt.IsZero():
			m.session.Record(ctx, s.EndedAt.Sub(s.HelloAt).Seconds(), m.words.ends.of(s.EndReason).record...)
		case s.EndReason == shutdown:
			m.attempts.Add(ctx, 1, m.words.failed.of(shutdown).add...)
		default:
			m.attempts.Add(ctx, 1, m.words.failed.of(s.Code).add...)
		}
	case observe.FrameIgnored:
		if e.Reason == abortOfNothing {
			m.aborts.Add(ctx, 1, m.words.aborts.of(abortion{fromRelay, unknownExec}).add...)
		}
	}
}

func (m *Metrics) judged(ctx context.Context, v observe.Verdict, reason string, collided bool) {
	switch v {
	case observe.VerdictRun:
		result := lookupMiss
		if collided {
			result = lookupReran
		}
		m.lookups.Add(ctx, 1, m.words.lookups.of(result).add...)
	case observe.VerdictReplay:
		m.lookups.Add(ctx, 1, m.words.lookups.of(lookupHit).add...)
	case observe.VerdictConflict:
		m.lookups.Add(ctx, 1, m.words.lookups.of(lookupRefused).add...)
		m.refused.Add(ctx, 1, m.words.refused.of(refusal(v, reason)).add...)
	case observe.VerdictBusy, observe.VerdictRefused:
		m.refused.Add(ctx, 1, m.words.refused.of(refusal(v, reason)).add...)
	}
}

func (m *Metrics) ended(ctx context.Context, r *observe.Receipt) {
	begun := m.unmark(r.Exec.Seq)
	took := r.EndedAt.Sub(r.Exec.ReceivedAt)
	why := errorType(r)
	m.duration.Record(ctx, took.Seconds(), m.words.endings.of(ending{r.Outcome, why, r.Exec.Streaming}).record...)
	switch {
	case !begun:
		m.queue.Record(ctx, r.Phases.Queue.Seconds(), m.words.aborted.record...)
	case r.Outcome == observe.OutcomeSpawnError:
		m.spawn.Record(ctx, (took - r.Phases.Queue).Seconds(), m.words.unspawn.of(why).record...)
	}
	if r.Outcome == observe.OutcomeRefused { // out of the queue, at a drain
		m.refused.Add(ctx, 1, m.words.refused.of(refusal(observe.VerdictBusy, r.Error)).add...)
	}
	if r.PID == 0 {
		return
	}
	m.size.Record(ctx, r.StdoutBytes+r.StderrBytes)
	m.output.Add(ctx, r.StdoutBytes, m.words.stdout.add...)
	m.output.Add(ctx, r.StderrBytes, m.words.stderr.add...)
	m.chunks.Add(ctx, r.Chunks)
	m.blocked.Add(ctx, r.Phases.SendBlocked.Seconds())
	if r.StdoutCut+r.StderrCut > 0 {
		m.truncated.Add(ctx, 1)
	}
}

// mark remembers that the execution has a slot, and who has it killed. No event
// that comes later says so.
func (m *Metrics) mark(seq uint64, killedBy observe.EndedBy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun[seq] = killedBy
}

func (m *Metrics) marked(seq uint64) (killedBy observe.EndedBy, begun bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	killedBy, begun = m.begun[seq]
	return killedBy, begun
}

// unmark forgets the execution, which has ended.
func (m *Metrics) unmark(seq uint64) (begun bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, begun = m.begun[seq]
	delete(m.begun, seq)
	return begun
}
