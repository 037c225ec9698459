package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"execworker/daemon/observe"
)

// why is why an exec has not ended: one sentence, and what it rests on.
type why struct {
	kind     string // one of the words below
	sentence string // ASCII, on one line
	evidence []string
}

// Kinds of reasons.
const (
	whyWaiting     = "waiting"      // for an earlier run under its req_id to be gone
	whyQueued      = "queued"       // for a slot
	whySpawning    = "spawning"     // it is being started
	whyCPU         = "cpu"          // it computes
	whySleeping    = "sleeping"     // in a wait that is named
	whyStopped     = "stopped"      // by a signal or a tracer
	whyTerminal    = "terminal"     // reads from a terminal
	whyPipe        = "pipe"         // reads from or writes to a pipe, or opens one
	whySocket      = "socket"       // waits for the network
	whyLock        = "lock"         // waits for a file lock
	whyDisk        = "disk"         // in an uninterruptible wait
	whyHeld        = "held"         // main has ended, and something holds its output open
	whySendBlocked = "send_blocked" // the relay does not read
	whyKilling     = "killing"      // being killed, and not yet proven gone
	whySurvivor    = "survivor"     // the command has ended, what it left has not
	whyUnreadable  = "unreadable"   // its processes cannot be read here
)

// Of what was not looked at there is the state instead: running or draining.

// situation is what a reason is found in.
type situation struct {
	now    time.Time
	all    []observe.Inflight // everything in flight
	status observe.Status
	show   func(string) string // makes arguments of a process fit to be shown
	unseen string              // where there is no look at an exec's processes: why
}

// Why there is no look.
const (
	unseenAsked = "its processes were not looked at"
	unseenTime  = "there was no time to look at its processes"
	unseenGone  = "no process of it was found"
)

// unseenBy says why a look, which has ended with ctx or before, has shown nothing
// of an exec.
func unseenBy(ctx context.Context) string {
	if ctx.Err() != nil {
		return unseenTime
	}
	return unseenGone
}

// whys explains a list, with one look at the processes of all of it. Who is no
// operator gets what can be said without naming processes.
func (s *Server) whys(ctx context.Context, list, all []observe.Inflight, status observe.Status, now time.Time, who class) map[uint64]why {
	const lookMost = 300 * time.Millisecond // of which a first look takes 100
	ctx, cancel := context.WithTimeout(ctx, lookMost)
	defer cancel()
	var seqs []uint64
	for _, x := range list {
		if !x.StartedAt.IsZero() {
			seqs = append(seqs, x.Exec.Seq)
		}
	}
	var seen map[uint64]observe.Inspection
	if who == operator && len(seqs) > 0 {
		seen = s.worker.Inspect(ctx, seqs, false)
	}
	in := situation{now: now, all: all, status: status, show: s.options.Preview, unseen: unseenBy(ctx)}
	reasons := make(map[uint64]why, len(list))
	for _, x := range list {
		reasons[x.Exec.Seq] = in.explain(x, inspectionOf(seen, x.Exec.Seq), who)
	}
	return reasons
}

func inspectionOf(seen map[uint64]observe.Inspection, seq uint64) *observe.Inspection {
	if i, ok := seen[seq]; ok {
		return &i
	}
	return nil
}

// explain says why an exec in flight has not ended. look is nil when there was
// none.
func (in situation) explain(x observe.Inflight, look *observe.Inspection, who class) why {
	switch {
	case x.State == observe.StateWaiting:
		return in.waiting(x)
	case x.State == observe.StateQueued:
		return in.queued(x)
	case x.State == observe.StateSpawning:
		return why{kind: whySpawning, sentence: "being started for " + age(in.now.Sub(orNow(x.DequeuedAt, in.now))) + ": its workspace and its process are being made"}
	case x.State == observe.StateKilling:
		return in.killing(x, look, who)
	case x.SendWaiting:
		return in.sendBlocked(x)
	case who != operator: // not even names: a process chooses its own, so it may be an argument
		return why{kind: string(x.State), sentence: in.began(x) + "; what its processes do is shown to operators only"}
	case x.State == observe.StateDraining:
		return in.held(x, look)
	}
	return in.running(x, look)
}

func (in situation) waiting(x observe.Inflight) why {
	w := why{kind: whyWaiting, sentence: "waits for " + age(in.now.Sub(x.Exec.ReceivedAt)) + " until the earlier run of this req_id, from a session that is over, is gone"}
	for _, other := range in.all {
		if other.Exec.ID == x.Exec.ID && other.Exec.Seq != x.Exec.Seq {
			w.evidence = append(w.evidence, fmt.Sprintf("the earlier run, etag %s, is %s, pid %d", etagOf(other.Exec.Seq), other.State, other.PID))
		}
	}
	return w
}

// queued names who has the slots, the oldest first.
func (in situation) queued(x observe.Inflight) why {
	const named = 4
	var holders, evidence []string
	for _, other := range in.all {
		if other.State == observe.StateQueued || other.State == observe.StateWaiting {
			continue
		}
		took := age(in.now.Sub(orNow(other.DequeuedAt, in.now)))
		holders = append(holders, fmt.Sprintf("%s (%s)", other.Exec.ID.ID, took))
		evidence = append(evidence, fmt.Sprintf("req_id %s has a slot for %s: %s, %s", other.Exec.ID.ID, took, other.State, commandName(other.Exec.Command)))
	}
	by := strings.Join(holders[:min(len(holders), named)], ", ")
	if more := len(holders) - named; more > 0 {
		by += fmt.Sprintf(" and %d more", more)
	}
	w := why{kind: whyQueued, evidence: evidence}
	w.sentence = fmt.Sprintf("queued for %s, %s in line: ", age(in.now.Sub(x.Exec.ReceivedAt)), ordinal(x.QueuePosition))
	switch {
	case len(holders) < in.status.CapacityMax || by == "":
		w.sentence += "a slot is about to take the next"
	case in.status.CapacityMax == 1:
		w.sentence += "the only slot is taken by req_id " + by
	default:
		w.sentence += fmt.Sprintf("all %d slots are taken, by req_id %s", in.status.CapacityMax, by)
	}
	return w
}

func ordinal(n int) string {
	switch {
	case n == 1:
		return "next"
	case n%10 == 2 && n%100 != 12:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3 && n%100 != 13:
		return fmt.Sprintf("%drd", n)
	case n%10 == 1 && n%100 != 11:
		return fmt.Sprintf("%dst", n)
	}
	return fmt.Sprintf("%dth", n)
}

func few(all []string, most int) string {
	text := strings.Join(all[:min(len(all), most)], "; ")
	if more := len(all) - most; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// began is how every sentence about an exec that was started begins.
func (in situation) began(x observe.Inflight) string {
	if !x.MainEndedAt.IsZero() {
		return "main ended " + age(in.now.Sub(x.MainEndedAt)) + " ago"
	}
	return "running for " + age(in.now.Sub(orNow(x.StartedAt, in.now)))
}

// output is how every sentence about a running exec ends.
func (in situation) output(x observe.Inflight) string {
	text := "no output yet"
	if !x.LastOutputAt.IsZero() {
		text = "last output " + age(in.now.Sub(x.LastOutputAt)) + " ago"
	}
	if x.Exec.Timeout > 0 {
		text += ", timeout in " + age(x.StartedAt.Add(x.Exec.Timeout).Sub(in.now))
	}
	return text
}

func named(p observe.Process) string { return fmt.Sprintf("pid %d %s", p.PID, ascii(p.Name)) }
