package observe

import (
	"context"
	"time"
)

// Observer is told of everything that happens, in the order it happens to each
// exec. Calls for different execs come at the same time from many goroutines.
// An observer must not block: whoever calls it has work to do.
type Observer interface {
	// Begin is called once for each Exec frame, before any event of it, and
	// returns the context that comes with every later event of that exec.
	Begin(ctx context.Context, x Exec) context.Context
	// Event reports one fact. ctx is the exec's own for events of an exec.
	Event(ctx context.Context, e Event)
}

// Tracer is an Observer that makes traces. The core asks the first there is, and
// knows no more of traces than this.
type Tracer interface {
	// Trace says, after Begin, where the exec of ctx is to be found.
	Trace(ctx context.Context) Trace
	// ChildEnv is what the command's environment gets, as NAME=value, in the
	// place of what it may have inherited under the same names. A NAME alone
	// takes away what it may have inherited. The slice is the caller's.
	ChildEnv(ctx context.Context) []string
}

// Event is one of the types below.
type Event interface{ event() }

// Events of one exec, in the order they can come.
type (
	// Judged is what admission decided. Only VerdictRun and VerdictWait are
	// followed by more events.
	Judged struct {
		Exec     Exec
		Verdict  Verdict
		Reason   string // of a refusal
		Collided bool   // runs under the req_id of a finished exec
		Original Trace  // of the run that answers a join or a replay
		Queued   int    // execs in the queue, this one included
		Running  int
	}
	// Dequeued: a slot has taken the exec.
	Dequeued struct {
		Exec   Exec
		Waited time.Duration
	}
	// Spawned: main runs.
	Spawned struct {
		Exec Exec
		PID  int
		Took time.Duration
	}
	// FirstOutput is the first byte on either stream.
	FirstOutput struct {
		Exec   Exec
		Stream string // stdout or stderr
		After  time.Duration
	}
	// OutputGrew comes at the second, fourth, eighth … piece of output that is
	// read, and at the first of the other stream than FirstOutput's: seldom,
	// however much a command says. It can overtake FirstOutput.
	OutputGrew struct {
		Exec        Exec
		Stream      string // of that piece: stdout or stderr
		First       bool   // of that stream
		Pieces      int64  // of both streams, so far
		StdoutBytes int64
		StderrBytes int64
	}
	// AbortRequested is the wish of the relay or an operator.
	AbortRequested struct {
		Exec   Exec
		By     EndedBy // EndedByCaller or EndedByAdmin
		Reason string  // untrusted
		At     time.Time
	}
	// KillBegan: the tree is being swept.
	KillBegan struct {
		Exec Exec
		By   EndedBy
	}
	// KillEnded: the tree is gone, or Left says who is not.
	KillEnded struct {
		Exec        Exec
		Took        time.Duration
		Containment Containment
	}
	// Ended is the last event of an exec that was admitted.
	Ended struct{ Receipt Receipt }
	// SurvivorsFound comes after Ended, once, if the command left any.
	SurvivorsFound struct {
		Exec      Exec
		Processes []Process
		Kept      bool // false: they are being swept
	}
	// SurvivorsGone: nothing of the exec's tree is left any more.
	SurvivorsGone struct{ Exec Exec }
)

// Events of sessions and of the worker.
type (
	// Dialing: an attempt to attach begins.
	Dialing struct{ Session Session }
	// Attached: Hello has been sent.
	Attached struct{ Session Session }
	// SessionEnded: an attempt failed or a session is over.
	SessionEnded struct {
		Session Session
		Next    time.Duration // back-off until the next attempt; 0 when there will be none
	}
	// FrameIgnored: the relay sent something that is not for this worker.
	FrameIgnored struct {
		Session uint64
		Reason  string
	}
	// RogueKilled: a process that had tampered with its tag was adopted and killed.
	RogueKilled struct{ Process Process }
	// WorkspaceSwept: an idle workspace directory was removed, or could not be.
	WorkspaceSwept struct {
		Key   string // untrusted
		Error string
	}
	// AdmissionClosed: new execs are refused until AdmissionOpened, because an
	// operator said so. What was admitted runs on.
	AdmissionClosed struct{ Reason string } // untrusted
	AdmissionOpened struct{}
	// AdminDenied: a process that came out of a command asked the admin API for
	// something. Times counts such requests of one exec since the last event.
	AdminDenied struct {
		Exec    ID // zero when it is a rogue
		Process Process
		Method  string
		Path    string // untrusted
		Times   int
	}
	// DrainBegan: new execs are refused from now on.
	DrainBegan struct{ Running, Queued int }
	// DrainEnded: nothing is in flight any more. Survivors are swept after it.
	DrainEnded struct {
		Took  time.Duration
		Swept int // execs that did not end in time
	}
)

func (Judged) event()          {}
func (Dequeued) event()        {}
func (Spawned) event()         {}
func (FirstOutput) event()     {}
func (OutputGrew) event()      {}
func (AbortRequested) event()  {}
func (KillBegan) event()       {}
func (KillEnded) event()       {}
func (Ended) event()           {}
func (SurvivorsFound) event()  {}
func (SurvivorsGone) event()   {}
func (Dialing) event()         {}
func (Attached) event()        {}
func (SessionEnded) event()    {}
func (FrameIgnored) event()    {}
func (RogueKilled) event()     {}
func (WorkspaceSwept) event()  {}
func (AdmissionClosed) event() {}
func (AdmissionOpened) event() {}
func (AdminDenied) event()     {}
func (DrainBegan) event()      {}
func (DrainEnded) event()      {}

// Observers tells each of its members in turn.
type Observers []Observer

var (
	_ Observer = Observers(nil)
	_ Tracer   = Observers(nil)
)

func (o Observers) Begin(ctx context.Context, x Exec) context.Context {
	for _, each := range o {
		ctx = each.Begin(ctx, x)
	}
	return ctx
}

// Trace asks the first member that makes traces.
func (o Observers) Trace(ctx context.Context) Trace {
	for _, each := range o {
		if t, ok := each.(Tracer); ok {
			return t.Trace(ctx)
		}
	}
	return Trace{}
}

// ChildEnv asks the first member that makes traces.
func (o Observers) ChildEnv(ctx context.Context) []string {
	for _, each := range o {
		if t, ok := each.(Tracer); ok {
			return t.ChildEnv(ctx)
		}
	}
	return nil
}

func (o Observers) Event(ctx context.Context, e Event) {
	for _, each := range o {
		each.Event(ctx, e)
	}
}
