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
	whyTerminal    = "terminal"     // reads from a terminal, where nobody types
	whyPipe        = "pipe"         // reads from or writes to a pipe, or opens one
	whySocket      = "socket"       // waits for the network
	whyLock        = "lock"         // waits for a file lock
	whyDisk        = "disk"         // in a wait that no signal ends
	whyHeld        = "held"         // main has ended, and something holds its output open
	whySendBlocked = "send_blocked" // the relay does not read
	whyKilling     = "killing"      // being killed, and not yet proven gone
	whySurvivor    = "survivor"     // the command has ended, what it left has not
	whyUnreadable  = "unreadable"   // its processes cannot be read here
)

// situation is what a reason is found in.
type situation struct {
	now    time.Time
	all    []observe.Inflight // everything in flight
	status observe.Status
	show   func(string) string // makes arguments of a process fit to be shown
}

// whys explains a list, with one look at the processes of all of it. Who is no
// operator gets what can be said without naming processes.
func (s *Server) whys(ctx context.Context, list, all []observe.Inflight, status observe.Status, now time.Time, who class) map[uint64]why {
	const lookMost = 500 * time.Millisecond // its first look takes 100 ms
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
	in := situation{now: now, all: all, status: status, show: s.options.Preview}
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
		return in.killing(x, look)
	case x.SendWaiting:
		return in.sendBlocked(x)
	case who != operator:
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
	case in.status.CapacityMax == 1 && by != "":
		w.sentence += "the only slot is taken by req_id " + by
	case by != "":
		w.sentence += fmt.Sprintf("all %d slots are taken, by req_id %s", in.status.CapacityMax, by)
	default:
		w.sentence += "a slot is about to take it"
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

func (in situation) sendBlocked(x observe.Inflight) why {
	sentence := fmt.Sprintf("%s; its output waits, because the relay does not read: %s of waiting so far", in.began(x), age(x.SendBlocked))
	return why{kind: whySendBlocked, sentence: sentence, evidence: []string{
		fmt.Sprintf("stdout %d bytes and stderr %d bytes were read from the command; more is read when the relay takes what there is", x.StdoutBytes, x.StderrBytes),
	}}
}

// killing says for what, and who is not gone.
func (in situation) killing(x observe.Inflight, look *observe.Inspection) why {
	cause := "its session ended or the worker is stopping"
	switch {
	case x.Abort != nil:
		cause = "aborted by " + string(x.Abort.By)
	case x.Exec.Timeout > 0 && !x.KillBeganAt.Before(x.StartedAt.Add(x.Exec.Timeout)):
		cause = "it outlived its timeout of " + age(x.Exec.Timeout)
	}
	w := why{kind: whyKilling, sentence: fmt.Sprintf("being killed for %s (%s), not yet proven gone", age(in.now.Sub(orNow(x.KillBeganAt, in.now))), cause)}
	if look == nil {
		return w
	}
	for _, p := range look.Processes {
		w.evidence = append(w.evidence, in.describe(p, look))
	}
	if len(look.Processes) > 0 {
		p := look.Processes[0]
		for _, other := range look.Processes { // what no signal ends explains it
			if other.State == "D" {
				p = other
			}
		}
		w.sentence += fmt.Sprintf(": %s is in state %s", named(p.Process), stateOf(p.State))
	}
	return w
}

// held is about an exec whose main has ended and whose output has not.
func (in situation) held(x observe.Inflight, look *observe.Inspection) why {
	w := why{kind: whyHeld, sentence: fmt.Sprintf("main ended %s ago, and its output is still being read", age(in.now.Sub(orNow(x.MainEndedAt, in.now))))}
	if look == nil {
		return w
	}
	var holders []string
	for _, h := range look.Pipes {
		if h.Writes {
			holders = append(holders, in.holder(h))
			w.evidence = append(w.evidence, in.holder(h))
		}
	}
	if len(holders) == 0 {
		for _, p := range look.Processes {
			holders = append(holders, named(p.Process))
		}
	}
	if len(holders) > 0 {
		w.sentence += ": " + few(holders, 2)
	}
	return w
}

// holder tells of a process that holds a pipe of an exec.
func (in situation) holder(h observe.PipeHolder) string {
	text := fmt.Sprintf("%s is held by pid %d %s", h.Stream, h.Process.PID, in.arguments(h.Process, h.Command))
	if h.Session != 0 && h.Session == h.Process.PID {
		text += ", in a session of its own"
	}
	if !h.Member {
		text += ", which is not of this exec"
	}
	if !h.Process.StartedAt.IsZero() {
		text += ", started " + age(in.now.Sub(h.Process.StartedAt)) + " ago"
	}
	return text
}

// arguments is what a process runs, cut; its name where that cannot be read.
func (in situation) arguments(p observe.Process, command string) string {
	const shown = 60
	if command == "" {
		return ascii(p.Name)
	}
	text := printable(in.show(command))
	if len(text) > shown {
		text = text[:shown-3] + "..."
	}
	return text
}

func few(all []string, most int) string {
	text := strings.Join(all[:min(len(all), most)], "; ")
	if more := len(all) - most; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// began is how every sentence about a running exec begins.
func (in situation) began(x observe.Inflight) string {
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
