package observe

import "time"

// Inflight is an exec that has no terminal frame yet.
type Inflight struct {
	Exec          Exec
	State         State
	QueuePosition int // 1 is next; 0 when not queued
	PID           int
	DequeuedAt    time.Time // a slot took it; zero before, as all times here
	StartedAt     time.Time // of main
	FirstByte     time.Duration
	LastOutputAt  time.Time
	MainEndedAt   time.Time // zero too if main was killed here
	KillBeganAt   time.Time
	StdoutBytes   int64
	StderrBytes   int64
	Chunks        int64
	SendBlocked   time.Duration // so far
	SendWaiting   bool          // a reader waits for room right now: the relay does not keep up
	Abort         *AbortRequested
}

// Completed is one entry of dedup: a finished exec whose terminal frame is
// sent again when the same exec is redelivered.
type Completed struct {
	ID          ID
	Fingerprint string
	Outcome     Outcome
	ExitCode    int
	Truncated   bool
	TraceID     string // hex, of the run; empty when there is no trace
	StoredAt    time.Time
	Hits        int64
	LastHitAt   time.Time
}

// Dedup is the finished part of the ledger.
type Dedup struct {
	Capacity   int
	Hits       int64 // replays
	Collisions int64 // ran again under a finished req_id
	Conflicts  int64 // refused under a req_id in flight
	Evictions  int64
	Entries    []Completed // most recently used first
}

// Session is one attempt to attach to the relay and what became of it.
type Session struct {
	Number      uint64 // counts attempts from 1
	Target      string
	Attempt     int           // in a row without a healthy session, from 1
	Backoff     time.Duration // waited before it
	DialedAt    time.Time
	ConnectedAt time.Time // zero when the dial failed
	HelloAt     time.Time // zero when it never attached
	EndedAt     time.Time // zero while it lives
	LastRecvAt  time.Time
	HeartbeatAt time.Time
	TLS         bool
	FramesIn    int64
	FramesOut   int64
	BytesIn     int64 // of frames, as protobuf
	BytesOut    int64
	EndReason   string // one short phrase
	Code        string // gRPC status code, when there was one
	Detail      string // untrusted
	ExecsLost   int
	Healthy     bool // good enough for the back-off to start over
}

// Survivors is a tree that a command left running when it ended by itself.
type Survivors struct {
	Exec      Exec
	Since     time.Time
	Processes []Process
	Tail      []byte // the last output that nobody asked for, at most 64 KiB
	TailCut   int64  // bytes before it
}

// Status is the worker as a whole.
type Status struct {
	StartedAt    time.Time
	SandboxID    string
	Arch         string
	Image        string
	Trust        string
	Capabilities []string
	CapacityMax  int
	QueueCap     int
	Running      int
	Queued       int
	Draining     bool   // new execs are refused, for the worker is stopping
	Closed       bool   // new execs are refused, because an operator said so
	ClosedReason string // untrusted
	Attached     bool
	Session      uint64
	NextAttempt  time.Time // zero while attached or dialling
	Containment  string    // level; see the process package
	Survivors    int       // trees
	// OrphansReaped counts processes that were reaped after they had come to the
	// worker because their parent died, rogues and foreign ones included.
	OrphansReaped int64
	Totals        Totals
}

// AbortResult is what became of the wish to stop an exec.
type AbortResult string

const (
	AbortKilled   AbortResult = "killed"   // it runs, and its tree is being swept
	AbortDequeued AbortResult = "dequeued" // it had not begun, and never will
	AbortOther    AbortResult = "other"    // another execution has that id now
	AbortNone     AbortResult = "none"     // nothing in flight has that id
)

// Totals count since the worker started.
type Totals struct {
	Execs, Timeouts, Aborts, Refused, Replays, Collisions int64
}
