package admin

import (
	"context"
	"net/http"
	"sync"
	"time"

	"execworker/daemon/observe"
)

const (
	denialsEvery = time.Second // an exec, at most
	denialsKept  = 256         // execs that are remembered
)

// denials reports what was refused to commands: the first request of an exec at
// once, and then at most one event a second with all there were, so that a command
// that asks in a loop cannot fill the log.
type denials struct {
	observer observe.Observer

	mu     sync.Mutex
	execs  map[observe.ID]*denial
	closed bool
}

// denial is of an exec that was refused something less than a second ago.
type denial struct {
	waiting observe.AdminDenied // the last of the requests since the last event; Times is 0 when there were none
	timer   *time.Timer         // for them
}

func (d *denials) add(o observe.Origin, r *http.Request) {
	event := observe.AdminDenied{Exec: o.Exec, Process: o.Process, Method: r.Method, Path: r.URL.Path, Times: 1}
	if !d.keep(event) {
		d.observer.Event(context.Background(), event)
	}
}

// keep keeps an event for later, if it is too early for it.
func (d *denials) keep(event observe.AdminDenied) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if of := d.execs[event.Exec]; of != nil {
		event.Times += of.waiting.Times
		of.waiting = event
		return true
	}
	if !d.closed && len(d.execs) < denialsKept { // else it is told at once, and so is the next
		d.execs[event.Exec] = &denial{timer: time.AfterFunc(denialsEvery, func() { d.due(event.Exec) })}
	}
	return false
}

// due tells what is waiting of an exec, and forgets it if there is nothing. It
// tells under the lock, so that nothing is told once close has returned.
func (d *denials) due(id observe.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.execs[id]
	if of == nil {
		return
	}
	if of.waiting.Times == 0 {
		delete(d.execs, id)
		return
	}
	d.observer.Event(context.Background(), of.waiting)
	of.waiting = observe.AdminDenied{}
	of.timer.Reset(denialsEvery)
}

// close tells all that is waiting. What comes after it is told at once.
func (d *denials) close() {
	d.mu.Lock()
	rest := d.execs
	d.execs, d.closed = nil, true
	d.mu.Unlock()
	for _, of := range rest {
		of.timer.Stop()
		if of.waiting.Times > 0 {
			d.observer.Event(context.Background(), of.waiting)
		}
	}
}
