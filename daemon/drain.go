package daemon

import (
	"context"
	"time"

	"execworker/daemon/observe"
)

// Drain refuses new execs from now on and ends what waits; what runs gets the
// drain time, and then Run returns. It does not wait for that.
func (d *Daemon) Drain() { d.drainOnce.Do(func() { close(d.draining) }) }

// drainWhenTold carries the drain out. It ends with nothing in flight and every
// terminal frame handed in.
func (d *Daemon) drainWhenTold(ctx context.Context) {
	select {
	case <-d.draining:
	case <-ctx.Done():
		d.Drain()
	}
	began := time.Now()
	unbegun, running, idle := d.ledger.drain()
	d.observer.Event(ctx, observe.DrainBegan{Running: running, Queued: len(unbegun)})
	for _, x := range unbegun {
		x.conclude(busy("draining"))
	}
	timer := time.NewTimer(d.cfg.Drain)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	case <-ctx.Done():
	}
	late := d.ledger.executions()
	for _, x := range late {
		x.cancel(errDrained{})
		x.lane.shutOff() // a relay that does not read must not hold the drain up
	}
	<-idle // a sweep has a deadline
	d.slots.Wait()
	d.observer.Event(ctx, observe.DrainEnded{Took: time.Since(began), Swept: len(late)})
	close(d.drained)
}
