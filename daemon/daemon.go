package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"execworker/daemon/observe"
	"execworker/daemon/process"
)

// errStopped is why everything ends when Run's context does.
var errStopped = errors.New("worker was told to stop at once")

// Daemon is the exec machine. Make one with New, start it with Run.
type Daemon struct {
	cfg          Config
	observer     observe.Observer
	capabilities []string
	startedAt    time.Time

	owner      *process.Owner
	oomKills   *process.OOMKills // nil where the kernel shows no count
	ledger     *ledger
	workspaces *workspaces
	survivors  *survivors
	runs       *runs
	receipts   history[observe.Receipt]
	sessions   sessions
	seq        atomic.Uint64 // of executions

	slots sync.WaitGroup // goroutines that run execs
	after sync.WaitGroup // goroutines that follow survivors

	door      sync.Mutex // makes a change of admission and its event one step; held around the ledger's lock
	drainOnce sync.Once
	draining  chan struct{} // closed when new execs are refused
	drained   chan struct{} // closed when none is left
}

// New makes this process the owner of every process that will come out of a
// command. There can be one Daemon in a process.
func New(cfg Config) (*Daemon, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	d := &Daemon{
		cfg:          cfg,
		observer:     cfg.Observer,
		capabilities: capabilities(),
		startedAt:    time.Now(),
		ledger:       newLedger(cfg.Slots),
		runs:         newRuns(),
		receipts:     history[observe.Receipt]{most: receiptsKept},
		sessions:     sessions{past: history[observe.Session]{most: sessionsKept}},
		draining:     make(chan struct{}),
		drained:      make(chan struct{}),
	}
	if d.observer == nil {
		d.observer = observe.Observers{}
	}
	owner, err := process.NewOwner(process.Options{
		Nice: cfg.Nice,
		OnRogue: func(p process.Process) {
			d.observer.Event(context.Background(), observe.RogueKilled{Process: processes([]process.Process{p})[0]})
		},
	})
	if err != nil {
		return nil, fmt.Errorf("contain: %w", err)
	}
	d.owner = owner
	// Without it no receipt tells of the OOM killer, and all else is as it is.
	d.oomKills, _ = process.OpenOOMKills()
	d.survivors = &survivors{sweep: cfg.SweepSurvivors, receipts: &d.receipts, over: make(chan struct{}), trees: make(map[uint64]survivor)}
	d.workspaces = newWorkspaces(cfg.WorkspaceRoot, cfg.WorkspaceIdle, d.observer, d.survivors.directories)
	return d, nil
}

// Run attaches to the relay, again and again, and serves. It returns nil after
// a Drain. When ctx ends it sweeps whatever runs at once and returns the cause.
// Nothing that a command started is left when it returns, except what could not
// be proven gone. It must be called once.
func (d *Daemon) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(errStopped)
	var idle sync.WaitGroup
	idle.Go(func() { d.workspaces.sweepIdle(ctx) })
	idle.Go(func() { d.drainWhenTold(ctx) })

	d.serve(ctx)
	err := context.Cause(ctx)
	stop(errStopped)
	idle.Wait()
	d.slots.Wait()
	d.survivors.end()
	d.after.Wait()
	d.owner.Close()
	d.oomKills.Close()
	return err
}

// serve has one session after the other until the drain is over or ctx ends.
func (d *Daemon) serve(ctx context.Context) {
	failures := 0
	var wait time.Duration
	for number := uint64(1); ; number++ {
		began := time.Now()
		record := d.attach(ctx, observe.Session{
			Number: number, Target: d.cfg.Relay.Addr, Attempt: failures + 1, Backoff: wait, DialedAt: began,
			TLS: d.cfg.Relay.TLS,
		})
		failures++
		if record.Healthy {
			failures = 1
		}
		wait = backoff(failures)
		if record.HelloAt.IsZero() {
			// The time that a failed attempt took is part of the wait, so that a
			// relay that is back is found within the longest back-off.
			wait = max(0, wait-time.Since(began))
		}
		if d.over(ctx) {
			wait = 0
		}
		d.observer.Event(ctx, observe.SessionEnded{Session: record, Next: wait})
		if !d.pause(ctx, wait) {
			return
		}
	}
}

// pause waits for the next attempt; false if there is to be none.
func (d *Daemon) pause(ctx context.Context, wait time.Duration) bool {
	if d.over(ctx) {
		return false
	}
	d.sessions.wait(time.Now().Add(wait))
	defer d.sessions.wait(time.Time{})
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-d.draining: // nothing runs without a session, so there is nothing to wait for
	}
	return !d.over(ctx)
}

func (d *Daemon) over(ctx context.Context) bool {
	select {
	case <-d.draining:
		return true
	case <-ctx.Done():
		return true
	default:
		return false
	}
}
