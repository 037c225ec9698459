package admin

import (
	"fmt"
	"strings"

	"execworker/daemon/observe"
)

// explainReceipt is how an exec ended, in one sentence.
func explainReceipt(r observe.Receipt, who class) string {
	var b strings.Builder
	ran := age(r.Phases.Run)
	switch r.Outcome {
	case observe.OutcomeExit:
		fmt.Fprintf(&b, "exited with %d after %s", r.ExitCode, ran)
	case observe.OutcomeSignal:
		fmt.Fprintf(&b, "died of %s after %s", ascii(r.Signal), ran)
		if r.OOM == nil {
			b.WriteString(", which the worker did not send")
		}
	case observe.OutcomeTimeout:
		fmt.Fprintf(&b, "killed after %s: it outlived its timeout of %s", age(r.Phases.Run), age(r.Exec.Timeout))
	case observe.OutcomeAbort:
		fmt.Fprintf(&b, "aborted by %s%s", endedByWords(r.EndedBy), reasonText(r.Reason, who))
		if r.PID == 0 {
			fmt.Fprintf(&b, " while it waited, for %s; it never ran", age(r.Phases.Queue))
		} else {
			fmt.Fprintf(&b, " after %s", ran)
		}
	case observe.OutcomeSpawnError:
		b.WriteString("could not be started" + errorText(r.Error, who))
	case observe.OutcomeRefused:
		b.WriteString("refused" + errorText(r.Error, who))
	case observe.OutcomeLost:
		fmt.Fprintf(&b, "lost with session %d", r.Exec.Session)
		if r.PID == 0 {
			b.WriteString(" before it ran")
		} else {
			fmt.Fprintf(&b, " and killed after %s", ran)
		}
	case observe.OutcomeDrained:
		fmt.Fprintf(&b, "killed after %s, when the drain time was over", ran)
	case observe.OutcomeUncontained:
		fmt.Fprintf(&b, "killed, but not proven gone: %d processes are left", len(r.Containment.Left))
	default:
		b.WriteString(ascii(string(r.Outcome)))
	}
	if r.OOM != nil {
		fmt.Fprintf(&b, "; memory ran out: %s", printable(r.OOM.Evidence))
	}
	if cut := r.StdoutCut + r.StderrCut; cut > 0 {
		fmt.Fprintf(&b, "; %s of its output were cut", size(cut))
	}
	if r.PipeHeld {
		b.WriteString("; something it left held its output open")
	}
	if n := len(r.Survivors); n > 0 {
		fmt.Fprintf(&b, "; it left %d running: %s", n, few(survivorNames(r.Survivors), 3))
	}
	return b.String()
}

func endedByWords(by observe.EndedBy) string {
	switch by {
	case observe.EndedByCaller:
		return "its caller"
	case observe.EndedByAdmin:
		return "an operator"
	}
	return ascii(string(by))
}

func reasonText(reason string, who class) string {
	if reason == "" || who != operator {
		return ""
	}
	return " (" + quoted(reason, reasonMost+20) + ")"
}

// errorText is an error, which may quote the command.
func errorText(err string, who class) string {
	if err == "" || who != operator {
		return ""
	}
	return ": " + cut(printable(err), 200)
}

func survivorNames(all []observe.Process) []string {
	var names []string
	for _, p := range all {
		names = append(names, named(p))
	}
	return names
}

// survivors says what a finished exec left and what that does.
func (in situation) survivors(x observe.Survivors, look *observe.Inspection) why {
	w := why{kind: whySurvivor, sentence: fmt.Sprintf("the command ended %s ago", age(in.now.Sub(x.Since)))}
	if look == nil || len(look.Processes) == 0 {
		w.sentence += "; it left " + few(survivorNames(x.Processes), 3)
		return w
	}
	culprit := familyOf(look).culprit(look.Window)
	w.sentence += fmt.Sprintf(", and it left %s running, which %s", named(culprit.Process), waitOf(culprit, look.Window).phrase)
	if more := len(look.Processes) + look.More - 1; more > 0 {
		w.sentence += fmt.Sprintf("; and %d more", more)
	}
	for _, p := range look.Processes {
		line := in.describe(p, look)
		if p.Session == p.PID {
			line += ", in a session of its own"
		}
		if !p.StartedAt.IsZero() {
			line += ", for " + age(in.now.Sub(p.StartedAt))
		}
		w.evidence = append(w.evidence, line)
	}
	for _, h := range look.Pipes {
		w.evidence = append(w.evidence, in.holder(h))
	}
	w.evidence = append(w.evidence, look.Unreadable...)
	return w
}
