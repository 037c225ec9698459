package admin

import (
	"context"

	"execworker/daemon/observe"
)

// Worker is what the API shows and stops. All methods are quick, but Inspect and
// Survivors, which read the process table.
type Worker interface {
	Status() observe.Status
	Inflight() []observe.Inflight // in the order they came
	Receipts() []observe.Receipt  // newest first
	Dedup() observe.Dedup
	Sessions() []observe.Session // newest first; the first may be the live one
	Survivors() []observe.Survivors

	// Inspect looks at the processes of executions, by their Seq; nil is all that
	// are in flight or have survivors. files also looks at open files, which
	// costs more. What has no processes (any more) is not in the answer.
	Inspect(ctx context.Context, seqs []uint64, files bool) map[uint64]observe.Inspection

	// Abort stops what is in flight under id, if seq is 0 or its own.
	Abort(id observe.ID, seq uint64, by observe.EndedBy, reason string) observe.AbortResult
	// AbortSurvivors begins to sweep what an execution left; false if there is nothing.
	AbortSurvivors(seq uint64) bool

	// CloseAdmission refuses new execs until OpenAdmission, which fails while the
	// worker is stopping.
	CloseAdmission(reason string)
	OpenAdmission() error
}

// Processes knows which processes came out of commands.
type Processes interface {
	// Origin is where the process pid comes from, as of now.
	Origin(pid int) observe.Origin
	// Holders lists who holds the socket of that inode (what /proc/<pid>/fd shows
	// as socket:[inode]). hidden says that some process that came out of a
	// command has descriptors that we may not read, so that it may be a holder.
	Holders(inode uint64) (holders []observe.Origin, hidden bool)
}
