package observe

import (
	"strconv"
	"time"
)

// Sources of execs.
const (
	SourceSandbox = "sandbox.v1" // the relay's wire; the id is the decimal req_id
)

// ID names one exec in its source's own terms. It is text, so that execs of
// other sources show up in the same lists.
type ID struct {
	Source string
	ID     string
}

// SandboxID returns the ID of a sandbox.v1 exec.
func SandboxID(reqID uint64) ID {
	return ID{Source: SourceSandbox, ID: strconv.FormatUint(reqID, 10)}
}

func (id ID) String() string { return id.Source + "/" + id.ID }

// CommandKept is how much of a command is kept to be shown, in bytes: it can be
// as long as a frame, and receipts outlive their execs.
const CommandKept = 4 << 10

// Exec is one command asked for, as it came.
type Exec struct {
	ID           ID
	Seq          uint64 // of the execution, fixed at admission; never given out twice by one worker
	Session      uint64 // the session it came on
	Command      string // its first CommandKept bytes; untrusted, and not always valid UTF-8
	CommandBytes int    // of the whole command
	CommandHash  string // hex SHA-256 of the whole command
	Fingerprint  string // hex SHA-256 over all fields of the request
	StdinBytes   int
	Timeout      time.Duration // from spawn; 0 is none
	Streaming    bool
	WorkspaceKey string // untrusted
	ReceivedAt   time.Time
	Trace        Trace
}

// Trace is where an exec is to be found in a trace backend. The zero value is
// nowhere.
type Trace struct {
	ID      string // hex
	SpanID  string // hex, of the exec's root span
	Sampled bool   // else it is exported only if it turns out slow or failed
}

// Verdict is what admission decided about an Exec frame.
type Verdict string

const (
	VerdictRun      Verdict = "run"      // into the queue
	VerdictJoin     Verdict = "join"     // a copy of an exec in flight: the first one answers
	VerdictReplay   Verdict = "replay"   // answered from dedup
	VerdictConflict Verdict = "conflict" // another exec under a req_id in flight
	VerdictBusy     Verdict = "busy"     // no room, or draining
	VerdictRefused  Verdict = "refused"  // the frame cannot be run, or the run it waited for was not contained
	VerdictWait     Verdict = "wait"     // behind a dying run of an earlier session
)

// State is where an exec in flight stands.
type State string

const (
	StateWaiting  State = "waiting"  // behind a dying run of an earlier session under the same req_id
	StateQueued   State = "queued"   // for a slot
	StateSpawning State = "spawning" // workspace and process are being made
	StateRunning  State = "running"  // main lives
	StateDraining State = "draining" // main has ended, its output is still being read
	StateKilling  State = "killing"  // its tree is being swept
)

// Outcome is how an exec ended.
type Outcome string

const (
	OutcomeExit        Outcome = "exit"        // main exited by itself
	OutcomeSignal      Outcome = "signal"      // main died by a signal that nobody here sent
	OutcomeTimeout     Outcome = "timeout"     // outlived its timeout
	OutcomeAbort       Outcome = "abort"       // aborted, queued or running
	OutcomeSpawnError  Outcome = "spawn_error" // could not be started
	OutcomeRefused     Outcome = "refused"     // never admitted, or dropped from the queue at a drain
	OutcomeLost        Outcome = "stream_lost" // its session ended first
	OutcomeDrained     Outcome = "drained"     // still running when the drain time was over
	OutcomeUncontained Outcome = "uncontained" // killed, but not proven gone
)

// EndedBy is who ended an exec.
type EndedBy string

const (
	EndedBySelf       EndedBy = "self"
	EndedByCaller     EndedBy = "caller" // an Abort frame
	EndedByAdmin      EndedBy = "admin"
	EndedByTimeout    EndedBy = "timeout"
	EndedByDisconnect EndedBy = "disconnect"
	EndedByDrain      EndedBy = "drain"
	EndedByOOM        EndedBy = "oom"     // the kernel, for memory; see Receipt.OOM
	EndedByUnknown    EndedBy = "unknown" // a signal from outside
)

// Receipt is the one record of how an exec ended and what it cost.
type Receipt struct {
	Exec     Exec
	Outcome  Outcome
	ExitCode int    // of main; -1 when it has none
	Signal   string // that main died of, such as SIGKILL; empty otherwise
	EndedBy  EndedBy
	Reason   string // untrusted; of an abort, if one was given
	Error    string // untrusted; why it could not start, was refused or is not contained
	Collided bool   // another exec had finished under this req_id before

	PID          int // of main; 0 when never spawned
	StartedAt    time.Time
	EndedAt      time.Time
	UserCPU      time.Duration // main and what it waited for
	SystemCPU    time.Duration
	MaxRSSBytes  int64 // of the largest single process
	ReadBlocks   int64 // block input operations
	WriteBlocks  int64
	StdoutBytes  int64 // read from the command
	StderrBytes  int64
	StdoutCut    int64 // read but not sent: past the cap of buffered mode
	StderrCut    int64
	Chunks       int64
	StdoutChunks int64 // of Chunks
	StderrChunks int64
	LargestPiece int64         // bytes read at once
	LastOutputAt time.Time     // zero when there was none
	LongestBlock time.Duration // the longest part of Phases.SendBlocked at a time
	StdoutHash   string        // hex SHA-256 of all that was read; empty unless asked for
	StderrHash   string
	PipeHeld     bool // the exec was over while something still held its output open
	OOM          *OOM // nil unless the kernel killed something for memory meanwhile
	Phases       Phases
	Containment  Containment
	Survivors    []Process // found after the end; empty until somebody has looked
	SurvivorsCut bool      // there were more trees of survivors than are kept, so these were swept
}

// Phases says where an exec's time went. Phases that did not happen are 0.
type Phases struct {
	Queue       time.Duration // received to slot
	Spawn       time.Duration // slot to running main, workspace included
	FirstByte   time.Duration // spawn to first output
	Run         time.Duration // spawn to main's end
	Drain       time.Duration // main's end to the end of its output
	SendBlocked time.Duration // readers of its output waited for room
	Kill        time.Duration // decision to proof
}

// OOM says that the kernel killed something for memory while an exec ran.
type OOM struct {
	Evidence   string // one sentence
	Confidence string // high: main itself died of SIGKILL; low: something in the worker's cgroup did
}

// Containment is what a sweep of an exec's tree took: all but Level is zero if
// there was none.
type Containment struct {
	Level  string // see the process package
	Rounds int
	Reaped int
	Left   []Process // could not be proven gone
}

// Process is a process of some tree, read from the kernel's tables.
type Process struct {
	PID       int
	PPID      int
	Name      string // comm: untrusted, chosen by the process
	State     string // one letter of /proc/<pid>/stat
	WaitsIn   string // kernel wait channel; empty when it cannot be read
	StartedAt time.Time
}
