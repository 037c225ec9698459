package daemon

import (
	"cmp"
	"runtime"
	"slices"
	"strconv"
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
		Chunks:        m.chunks.Load(),
		Abort:         x.abort,
	}
	if at := m.startedAt.Load(); at != 0 {
		s.StartedAt = time.Unix(0, at)
		if first := m.firstByteAt.Load(); first != 0 {
			s.FirstByte = time.Duration(first - at)
			s.LastOutputAt = time.Unix(0, m.lastByteAt.Load())
		}
	}
	s.SendBlocked, s.SendWaiting = m.sendBlocked()
	return s
}

// Receipts lists the last 256 execs that ended, newest first.
func (d *Daemon) Receipts() []observe.Receipt { return d.receipts.newest() }

// Dedup is what a redelivery would be answered from.
func (d *Daemon) Dedup() observe.Dedup {
	d.ledger.mu.Lock()
	defer d.ledger.mu.Unlock()
	return d.ledger.finished.snapshot()
}

// Sessions lists the session of now, if there is one, and those before it,
// newest first.
func (d *Daemon) Sessions() []observe.Session {
	past := d.sessions.past.newest()
	if now, _ := d.sessions.now(); now != nil {
		return append([]observe.Session{*now}, past...)
	}
	return past
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
	s.Totals.Collisions = d.ledger.finished.counts.Collisions
	d.ledger.mu.Unlock()
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
