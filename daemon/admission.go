package daemon

import (
	"context"
	"errors"

	"execworker/daemon/observe"
)

var errStopping = errors.New("worker is stopping: it takes no new execs any more")

// CloseAdmission refuses new execs, as a drain does, until OpenAdmission. What
// was admitted goes on, copies of it and redeliveries of what has finished
// included. If admission is closed already, the reason of then stands.
func (d *Daemon) CloseAdmission(reason string) {
	d.door.Lock()
	defer d.door.Unlock()
	if d.ledger.setClosed(true, reason) {
		d.observer.Event(context.Background(), observe.AdmissionClosed{Reason: reason})
	}
}

// OpenAdmission takes new execs again. It fails once the worker has been told to
// stop.
func (d *Daemon) OpenAdmission() error {
	d.door.Lock()
	defer d.door.Unlock()
	select {
	case <-d.draining:
		return errStopping
	default:
	}
	if d.ledger.setClosed(false, "") {
		d.observer.Event(context.Background(), observe.AdmissionOpened{})
	}
	return nil
}

// setClosed says whether that is a change.
func (l *ledger) setClosed(closed bool, reason string) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed == closed {
		return false
	}
	l.closed, l.reason = closed, reason
	return true
}
