package telemetry

import (
	"net/http"
	"strings"

	"golang.org/x/sys/unix"

	"execworker/daemon/observe"
)

// What stands for a value that is not on the list of its label.
const (
	other      = "other"
	otherError = "_OTHER" // where OpenTelemetry has a word for it
)

// Each list below is of one label, whose name its comment begins with.

// state: waiting and queued have no slot, the others have one.
var states = []observe.State{
	observe.StateWaiting, observe.StateQueued, observe.StateSpawning,
	observe.StateRunning, observe.StateDraining, observe.StateKilling,
}

// outcome of an exec: see observe.
var outcomes = []observe.Outcome{
	observe.OutcomeExit, observe.OutcomeSignal, observe.OutcomeTimeout,
	observe.OutcomeAbort, observe.OutcomeSpawnError, observe.OutcomeRefused,
	observe.OutcomeLost, observe.OutcomeDrained, observe.OutcomeUncontained,
}

// reason of a kill: who wanted it.
var enders = []observe.EndedBy{
	observe.EndedBySelf, observe.EndedByCaller, observe.EndedByAdmin, observe.EndedByTimeout,
	observe.EndedByDisconnect, observe.EndedByDrain, observe.EndedByOOM, observe.EndedByUnknown,
}

// result of a look into dedup. An exec that is refused as busy is not counted:
// it was not run, and comes again.
const (
	lookupHit     = "hit"
	lookupMiss    = "miss"
	lookupReran   = "collision_rerun"   // another exec had finished under the req_id
	lookupRefused = "collision_refused" // another one is in flight under it
)

// source and result of a wish to stop an exec. One of an operator that finds no
// exec is not reported, for nothing has happened then.
const (
	fromRelay   = "relay"
	fromAdmin   = "admin"
	killed      = "killed"   // a slot had taken it
	dequeued    = "dequeued" // it never begins
	unknownExec = "unknown"  // nothing was in flight under the req_id
)

// abortOfNothing is the reason of the FrameIgnored for such a wish of the relay.
const abortOfNothing = "abort of a req_id that is not in flight"

// reason of a refusal, beside those of busy.
const (
	refusedCollision = "collision"   // another exec is in flight under the req_id
	refusedBehind    = "uncontained" // the run that it waited for could not be proven gone
	refusedInvalid   = "invalid"     // the frame cannot be run
)

// busy are the reasons to refuse an exec that could be run, by what the core
// says behind "busy: ".
var busy = map[string]string{
	"queue full":  "queue_full",
	"queue bytes": "queue_bytes", // of commands and stdins
	"draining":    "draining",    // or an operator has closed admission
}

// refusal is the reason label for a verdict that refuses.
func refusal(v observe.Verdict, reason string) string {
	step, rest, _ := strings.Cut(reason, ": ")
	switch {
	case v == observe.VerdictConflict:
		return refusedCollision
	case v == observe.VerdictBusy:
		return busy[rest]
	case step == "containment":
		return refusedBehind
	}
	return refusedInvalid
}

// end_reason of a session, in the core's words.
var endReasons = []string{
	shutdown, "egress wedged", "attach failed", "refused or duplicate sandbox_id",
	"relay ended the stream", "message too large", "stream broke",
}

const shutdown = "shutdown"

// error_type of an attempt that failed is the name of its gRPC code, or shutdown.
var grpcCodes = []string{
	"Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists",
	"PermissionDenied", "ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange",
	"Unimplemented", "Internal", "Unavailable", "DataLoss", "Unauthenticated",
}

// error_type of an exec that was killed for memory, where a signal's name would
// only say SIGKILL.
const oom = "oom"

// errnos are those that spawning can fail with, by the text that ends its
// error: errors.Join and fmt.Errorf have made text of it by then.
var errnos = func() map[string]string {
	byText := make(map[string]string)
	for _, e := range []unix.Errno{
		unix.E2BIG, unix.EACCES, unix.EAGAIN, unix.EINVAL, unix.EIO, unix.EISDIR, unix.ELOOP, unix.EMFILE,
		unix.ENAMETOOLONG, unix.ENFILE, unix.ENOENT, unix.ENOEXEC, unix.ENOMEM, unix.ENOSPC, unix.ENOTDIR,
		unix.EPERM, unix.EROFS, unix.ETXTBSY,
	} {
		byText[e.Error()] = unix.ErrnoName(e)
	}
	return byText
}()

// signals are the names of all signals but those of real time, which have none.
var signals = func() map[string]bool {
	names := make(map[string]bool)
	for s := range unix.Signal(65) {
		if name := unix.SignalName(s); name != "" {
			names[name] = true
		}
	}
	return names
}()

// errorType says more about some outcomes: of a spawn_error the errno, of a
// signal its name, or oom.
func errorType(r *observe.Receipt) string {
	switch r.Outcome {
	case observe.OutcomeSpawnError:
		text := r.Error[strings.LastIndex(r.Error, ": ")+1:]
		if name, ok := errnos[strings.TrimPrefix(text, " ")]; ok {
			return name
		}
		return otherError
	case observe.OutcomeSignal:
		switch {
		case r.EndedBy == observe.EndedByOOM:
			return oom
		case signals[r.Signal]:
			return r.Signal
		}
		return otherError
	}
	return ""
}

// methods of HTTP. Any client can make one up.
var methods = map[string]bool{
	http.MethodGet: true, http.MethodHead: true, http.MethodPost: true, http.MethodPut: true, http.MethodPatch: true,
	http.MethodDelete: true, http.MethodConnect: true, http.MethodOptions: true, http.MethodTrace: true,
}
