package process

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Levels of containment.
const (
	LevelBase    = "base"    // every descendant is known by its tag, and gone is proven
	LevelReduced = "reduced" // no tag the kernel carries: what clears its environment and detaches can escape
)

// ErrClosed is what Spawn gives after Close.
var ErrClosed = errors.New("spawn: owner is closed")

// Options are what an Owner can be told. The zero value is good.
type Options struct {
	Nice          int           // of every main, 1 to 19; 0 leaves it as it is
	SweepDeadline time.Duration // after which a sweep gives up; 0 means 5 s
	// OnRogue, if set, is told of each adopted process that was killed because it
	// had changed its tag. It is called without locks, but sweeps wait for it.
	OnRogue func(Process)
}

// Owner starts, knows and ends all child processes of this program. There is
// one at a time. All methods are safe for concurrent use.
type Owner struct {
	options  Options
	oomScore []byte           // of trees
	shielded bool             // our own oom_score_adj is negative
	dropped  chan<- os.Signal // that are ignored here and shall not be by mains
	kernel   *kernel
	signals  *signaller

	wake    chan struct{} // the keeper looks at its plan; one place, never closed
	closing chan struct{} // closed by Close
	closed  sync.Once
	loops   sync.WaitGroup // the keeper, and a watcher for each watched main
	gate    gate
	tags    *tags

	// mu makes look, kill and reap one step, and the entry of a main another. It
	// is not held while a fork runs. Lock order: gate.mu, mu, forker.mu.
	mu       sync.Mutex
	children *children
	trees    map[uint64]*Tree // by tag: all that are not proven gone
	mains    map[int]*Tree    // by number: those whose main is not reaped
	sweeping []*Tree          // with a sweep under way
	plan     plan
	rogues   map[int]Process   // adopted, killed and not yet reaped
	flights  []*flight         // that have not landed
	unsure   map[int][]*flight // by child that is no main we know: the flights whose main it may be
	news     []Process         // rogues that OnRogue is still to be told of
	tally    tally

	listening bool // SIGCHLD reaches the keeper

	keeper    keeperState // touched by the keeper only
	inspector inspector   // by whoever has its turn
}

// tally is what reaping has counted.
type tally struct {
	foreign       int // alive at the last look
	rogues        int64
	rogueReaps    int64
	orphansReaped int64
}

// Counts are gauges and totals of an owner.
type Counts struct {
	Trees          int   // that are not proven gone
	Survivors      int   // of those, main has been reaped
	Uncontained    int   // of those, a sweep ended without proof
	Zombies        int   // mains that have ended and wait for Release
	ForeignOrphans int   // living processes adopted from outside all trees
	Rogues         int64 // killed so far
	OrphansReaped  int64 // adopted processes reaped so far, rogues and foreign ones included
}

var inUse atomic.Bool // by the one owner of this program

// NewOwner makes this process the reaper of its orphans and starts the keeper.
// Close ends it.
func NewOwner(options Options) (*Owner, error) {
	return newOwner(options, func(*kernel) {})
}

// newOwner lets a test change what the owner sees of the kernel.
func newOwner(options Options, change func(*kernel)) (_ *Owner, err error) {
	if !inUse.CompareAndSwap(false, true) {
		return nil, errors.New("process: this program has an owner already")
	}
	defer func() {
		if err != nil {
			inUse.Store(false)
		}
	}()
	if options.SweepDeadline == 0 {
		options.SweepDeadline = 5 * time.Second
	}
	if err := checkKernel(); err != nil {
		return nil, err
	}
	// What this program was started with and has not closed is no business of
	// any main's. Whatever Go opens is close-on-exec anyway.
	// Best effort: the flag came with Linux 5.11 (close_range(2)).
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	o := &Owner{
		options: options,
		wake:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		trees:   make(map[uint64]*Tree),
		mains:   make(map[int]*Tree),
		rogues:  make(map[int]Process),
		unsure:  make(map[int][]*flight),
		plan:    plan{reap: time.Now()},

		inspector: inspector{turn: make(chan struct{}, 1)},
	}
	o.oomScore, o.shielded = oomScore()
	if o.keeper.table, err = openTable(); err != nil {
		return nil, err
	}
	if o.tags, err = newTags(); err != nil {
		o.keeper.table.close()
		return nil, err
	}
	k := realKernel(o.tags)
	change(&k)
	o.kernel, o.signals = &k, newSignaller(&k)

	o.children = openChildren(o.keeper.table)
	o.dropped = dropIgnored()
	o.loops.Go(o.keep)
	return o, nil
}

// checkKernel makes this process a subreaper and sees that what the package
// rests on is there.
func checkKernel() error {
	if err := checkProc(); err != nil {
		return err
	}
	pidfd, err := unix.PidfdOpen(unix.Getpid(), 0) // Linux 5.3
	if err != nil {
		return fmt.Errorf("process: pidfd_open: %w", err)
	}
	unix.Close(pidfd)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("process: become subreaper: %w", err)
	}
	return checkSubreaper()
}

// Close stops the owner's goroutine and waits for it. All
// trees should be gone by then: what is left is no longer looked after, and the
// Done of a main that still lives is never closed.
func (o *Owner) Close() {
	o.closed.Do(func() {
		close(o.closing)
		o.mu.Lock()
		for _, t := range o.mains {
			if t.watch != nil {
				t.watch.Close()
			}
		}
		o.mu.Unlock()
		o.loops.Wait()
		signal.Stop(o.dropped)
		o.children.close()
		o.keeper.table.close()
		inUse.Store(false)
	})
}

// Level says how much containment this system allows: LevelBase or LevelReduced.
func (o *Owner) Level() string { return o.tags.level() }

// Counts returns the gauges as of now.
func (o *Owner) Counts() Counts {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := Counts{
		Trees:          len(o.trees),
		ForeignOrphans: o.tally.foreign,
		Rogues:         o.tally.rogues,
		OrphansReaped:  o.tally.orphansReaped,
	}
	for _, t := range o.trees {
		switch {
		case t.reaped:
			c.Survivors++
		case t.ended:
			c.Zombies++
		}
		if t.uncontained {
			c.Uncontained++
		}
	}
	return c
}

// wakeKeeper makes the keeper look at the plan.
func (o *Owner) wakeKeeper() {
	select {
	case o.wake <- struct{}{}:
	default: // it will look anyway
	}
}
