package daemon

import (
	"cmp"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"execworker/daemon/observe"
)

// Inflight lists what has no terminal frame yet, in the order it came.
func (d *Daemon) Inflight() []observe.Inflight {
	l := d.ledger
	l.mu.Lock()
	list := make([]observe.Inflight, 0, len(l.inflight))
	for _, x := range l.inflight {
		list = append(list, x.snapshotLocked(slices.Index(l.queue.all(), x)+1))
		if x.heir != nil {
			list = append(list, x.heir.snapshotLocked(0))
		}
	}
	l.mu.Unlock()
	slices.SortFunc(list, func(a, b observe.Inflight) int { return cmp.Compare(a.Exec.Seq, b.Exec.Seq) })
	return list
}

func (x *execution) snapshotLocked(position int) observe.Inflight {
	m := &x.meter
	s := observe.Inflight{
		Exec:          x.exec,
		State:         x.state,
		QueuePosition: position,
		PID:           int(m.pid.Load()),
		StdoutBytes:   m.stdout.Load(),
		StderrBytes:   m.stderr.Load(),
		Chunks:        m.chunks[0].Load() + m.chunks[1].Load(),
		Abort:         x.abort,
	}
	s.DequeuedAt, s.MainEndedAt, s.KillBeganAt = at(&m.dequeuedAt), at(&m.mainEndedAt), at(&m.killBeganAt)
	if started := m.startedAt.Load(); started != 0 {
		s.StartedAt = time.Unix(0, started)
		if first := m.firstByteAt.Load(); first != 0 {
			s.FirstByte = time.Duration(first - started)
			s.LastOutputAt = time.Unix(0, m.lastByteAt.Load())
		}
	}
	s.SendBlocked, s.SendWaiting = m.sendBlocked()
	return s
}

// at is a time of the meter, zero if that has not come.
func at(ns *atomic.Int64) time.Time {
	if ns := ns.Load(); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// Receipts lists the last 256 execs that ended, newest first.
func (d *Daemon) Receipts() []observe.Receipt { return d.receipts.newest() }

// Dedup is what a redelivery would be answered from.
func (d *Daemon) Dedup() observe.Dedup {
	d.ledger.mu.Lock()
	defer d.ledger.mu.Unlock()
	return d.ledger.finished.snapshot()
}

// Sessions lists the attempt or session of now, if there is one, and the last 64
// before it, newest first. What is over has an EndReason.
func (d *Daemon) Sessions() []observe.Session {
	// In this order, for a session is filed before it stops being the current
	// one: then it may be met twice, but never missed.
	now, _ := d.sessions.now()
	past := d.sessions.past.newest()
	if now == nil || len(past) > 0 && past[0].Number >= now.Number {
		return past
	}
	return append([]observe.Session{*now}, past...)
}

// Survivors lists the trees that commands left running. It reads the process
// table.
func (d *Daemon) Survivors() []observe.Survivors { return d.survivors.snapshot() }

// Status is the worker as a whole.
func (d *Daemon) Status() observe.Status {
	s := observe.Status{
		StartedAt:    d.startedAt,
		SandboxID:    d.cfg.SandboxID,
		Arch:         runtime.GOARCH,
		Image:        d.cfg.Image,
		Trust:        d.cfg.Trust,
		Capabilities: slices.Clone(d.capabilities),
		CapacityMax:  d.cfg.Slots,
		QueueCap:     queueLen,
	}
	d.ledger.mu.Lock()
	s.Running, s.Queued, s.Draining, s.Totals = d.ledger.running, d.ledger.queue.len(), d.ledger.draining, d.ledger.totals
	s.Closed, s.ClosedReason = d.ledger.closed, d.ledger.reason
	s.Totals.Collisions = d.ledger.finished.counts.Collisions
	d.ledger.mu.Unlock()
	s.Containment, s.Survivors = d.owner.Level(), d.survivors.count()
	s.OrphansReaped = d.owner.Counts().OrphansReaped
	now, next := d.sessions.now()
	s.NextAttempt = next
	if now != nil {
		s.Session, s.Attached = now.Number, !now.HelloAt.IsZero()
	}
	return s
}

// sandboxReqID is the inverse of observe.SandboxID.
func sandboxReqID(id observe.ID) (reqID uint64, ok bool) {
	reqID, err := strconv.ParseUint(id.ID, 10, 64)
	return reqID, err == nil && id == observe.SandboxID(reqID)
}
