package admin

import (
	"context"
	"net/http"
	"sync"
	"time"

	"execworker/daemon/observe"
)

// denials reports what was refused to commands: the first request of an exec at
// once, and then at most one event a second, so that a command that asks in a
// loop cannot fill the log.
type denials struct {
	observer observe.Observer

	mu    sync.Mutex
	execs map[observe.ID]*denial
}

type denial struct {
	last    time.Time // of the last event
	waiting int       // requests since then
}

// denialsKept bounds how many execs are remembered; those that were quiet for a
// minute go first.
const denialsKept = 256

func (d *denials) add(o observe.Origin, r *http.Request) {
	now := time.Now()
	d.mu.Lock()
	of := d.execs[o.Exec]
	if of == nil {
		if len(d.execs) >= denialsKept {
			clear(d.execs)
		}
		of = &denial{}
		d.execs[o.Exec] = of
	}
	of.waiting++
	times := of.waiting
	if now.Sub(of.last) < time.Second {
		d.mu.Unlock()
		return
	}
	of.last, of.waiting = now, 0
	d.mu.Unlock()
	d.observer.Event(context.Background(), observe.AdminDenied{
		Exec: o.Exec, Process: o.Process, Method: r.Method, Path: r.URL.Path, Times: times,
	})
}
