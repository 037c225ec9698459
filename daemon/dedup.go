package daemon

import (
	"time"

	"execworker/daemon/observe"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// dedupSize is how many finished execs are remembered.
const dedupSize = 256

// dedup is the finished part of the ledger, which guards it.
type dedup struct {
	entries *simplelru.LRU[uint64, *completed]
	counts  observe.Dedup // its counters only
}

// completed is one finished exec, and the outcome that a redelivery gets.
type completed struct {
	fingerprint fingerprint
	outcome     outcome
	trace       observe.Trace // of the run
	storedAt    time.Time
	hits        int64
	lastHitAt   time.Time
}

func newDedup() *dedup {
	d := &dedup{}
	// The error is for a size below 1 only.
	d.entries, _ = simplelru.NewLRU[uint64, *completed](dedupSize, nil)
	return d
}

// replay returns the same exec, finished, or says that another one has finished
// under its number.
func (d *dedup) replay(reqID uint64, f fingerprint) (c *completed, collided bool) {
	c, ok := d.entries.Get(reqID)
	if !ok {
		return nil, false
	}
	if c.fingerprint != f {
		d.counts.Collisions++
		return nil, true
	}
	c.hits++
	c.lastHitAt = time.Now()
	d.counts.Hits++
	return c, false
}

func (d *dedup) remember(reqID uint64, f fingerprint, o outcome, trace observe.Trace) {
	if d.entries.Add(reqID, &completed{fingerprint: f, outcome: o, trace: trace, storedAt: time.Now()}) {
		d.counts.Evictions++
	}
}

// snapshot lists the most recently used first.
func (d *dedup) snapshot() observe.Dedup {
	s := d.counts
	s.Capacity = dedupSize
	keys := d.entries.Keys() // oldest first
	for i := len(keys) - 1; i >= 0; i-- {
		c, _ := d.entries.Peek(keys[i])
		s.Entries = append(s.Entries, observe.Completed{
			ID:          observe.SandboxID(keys[i]),
			Fingerprint: c.fingerprint.String(),
			Outcome:     c.outcome.kind,
			ExitCode:    c.outcome.code,
			Truncated:   c.outcome.truncated,
			TraceID:     c.trace.ID,
			StoredAt:    c.storedAt,
			Hits:        c.hits,
			LastHitAt:   c.lastHitAt,
		})
	}
	return s
}
