package admin

import (
	"fmt"
	"strings"

	"execworker/daemon/observe"
)

// sendBlocked is about an exec whose output the relay does not take. What its
// processes do then comes of that.
func (in situation) sendBlocked(x observe.Inflight) why {
	sentence := fmt.Sprintf("%s; its output waits, because the relay does not read: %s of waiting so far", in.began(x), age(x.SendBlocked))
	return why{kind: whySendBlocked, sentence: sentence, evidence: []string{
		fmt.Sprintf("stdout %d bytes and stderr %d bytes were read from the command; more is read when the relay takes what there is", x.StdoutBytes, x.StderrBytes),
	}}
}

// killing says for what, and who is not gone.
func (in situation) killing(x observe.Inflight, look *observe.Inspection, who class) why {
	w := why{kind: whyKilling, sentence: fmt.Sprintf("being killed for %s (%s)", age(in.now.Sub(orNow(x.KillBeganAt, in.now))), in.killedFor(x))}
	switch {
	case look != nil && len(look.Processes) > 0:
		last := lastOf(look.Processes)
		w.sentence += fmt.Sprintf(", not yet proven gone: %s is in state %s", named(last.Process), stateOf(last.State))
		if more := len(look.Processes) - 1 + look.More; more > 0 {
			w.sentence += fmt.Sprintf("; and %d more", more)
		}
		w.evidence = in.describeAll(look)
	case look != nil && len(look.Unreadable) > 0:
		w.sentence += ", not yet over; its processes cannot be read here" + unreadable(look)
	case x.SendWaiting: // the command may be gone long since
		if who == operator && in.unseen == unseenGone {
			w.kind = whySendBlocked
		}
		w.sentence += "; its output waits, because the relay does not read: " + age(x.SendBlocked) + " of waiting so far"
	case who == operator && in.unseen == unseenGone:
		w.sentence += "; " + unseenGone
	default:
		w.sentence += ", not yet over"
	}
	return w
}

// killedFor is why an exec is being killed. A kill that begins after main's end
// is not for the timeout, which counts until then.
func (in situation) killedFor(x observe.Inflight) string {
	switch {
	case x.Abort != nil:
		return "aborted by " + endedByWords(x.Abort.By)
	case x.Exec.Timeout > 0 && x.MainEndedAt.IsZero() && !x.KillBeganAt.Before(x.StartedAt.Add(x.Exec.Timeout)):
		return "it outlived its timeout of " + age(x.Exec.Timeout)
	case !in.status.Attached || in.status.Session != x.Exec.Session:
		return fmt.Sprintf("its session, number %d, is over", x.Exec.Session)
	case in.status.Draining:
		return "the worker is stopping"
	}
	return "its session ended or the worker is stopping"
}

// lastOf is the process that a kill waits for: what no signal gets at, then what
// lives, then what is not reaped.
func lastOf(all []observe.ProcessDetail) observe.ProcessDetail {
	last, best := all[0], -1
	for _, p := range all {
		points := 1
		switch {
		case p.State == "D":
			points = 2
		case dead(p):
			points = 0
		}
		if points > best {
			last, best = p, points
		}
	}
	return last
}

// held is about an exec whose main has ended and whose output has not.
func (in situation) held(x observe.Inflight, look *observe.Inspection) why {
	w := why{kind: whyHeld, sentence: in.began(x) + ", and its output is still being read"}
	if look == nil {
		if in.unseen != unseenGone {
			w.kind = string(x.State)
			w.sentence += "; " + in.unseen
			return w
		}
		w.sentence += "; no process was found that holds it open"
		return w
	}
	holders := in.holders(look.Pipes, x.PID, true)
	w.evidence = append(in.describeAll(look), holders...)
	var alive []string
	for _, p := range look.Processes {
		if !dead(p) {
			alive = append(alive, named(p.Process))
		}
	}
	switch {
	case len(holders) > 0:
		w.sentence += ": " + few(holders, 2)
	case len(alive) > 0: // who of them holds it takes a closer look
		w.sentence += "; still alive: " + few(alive, 2)
	case len(look.Unreadable) > 0:
		w.sentence += "; by whom it is held cannot be read here" + unreadable(look)
	default:
		w.sentence += "; no process was found that holds it open"
	}
	return w
}

// holders tells of the processes that hold pipes of an exec, each once; of those
// that can write to them, if writing.
func (in situation) holders(all []observe.PipeHolder, main int, writing bool) (lines []string) {
	streams := make(map[int][]string)
	var first []observe.PipeHolder
	for _, h := range all {
		if writing && !h.Writes {
			continue
		}
		if streams[h.Process.PID] == nil {
			first = append(first, h)
		}
		streams[h.Process.PID] = append(streams[h.Process.PID], h.Stream)
	}
	for _, h := range first {
		lines = append(lines, in.holder(h, streams[h.Process.PID], main))
	}
	return lines
}

func (in situation) holder(h observe.PipeHolder, streams []string, main int) string {
	are := " is"
	if len(streams) > 1 {
		are = " are"
	}
	last := len(streams) - 1
	names := strings.Join(streams[:last], ", ") + " and " + streams[last]
	text := fmt.Sprintf("%s%s held by pid %d %s", strings.TrimPrefix(names, " and "), are, h.Process.PID, in.arguments(h.Process, h.Command))
	if h.Session == h.Process.PID && h.Process.PID != main {
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
	return cut(printable(in.show(command)), shown)
}
