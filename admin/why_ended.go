package admin

import (
	"fmt"
	"strings"

	"execworker/daemon/observe"
)

// explainReceipt is how an exec ended, in one sentence of ASCII. Reasons and
// errors, which may quote commands, are there for an operator only.
func (s *Server) explainReceipt(r observe.Receipt, who class) string {
	var b strings.Builder
	ran := age(r.Phases.Run)
	switch r.Outcome {
	case observe.OutcomeExit:
		fmt.Fprintf(&b, "exited with %d after %s", r.ExitCode, ran)
	case observe.OutcomeSignal:
		fmt.Fprintf(&b, "died of %s after %s", ascii(r.Signal), ran)
		if r.EndedBy != observe.EndedByOOM {
			b.WriteString(", which the worker did not send")
		}
	case observe.OutcomeTimeout:
		fmt.Fprintf(&b, "killed after %s: it outlived its timeout of %s", ran, age(r.Exec.Timeout))
	case observe.OutcomeAbort:
		fmt.Fprintf(&b, "aborted by %s%s", endedByWords(r.EndedBy), s.reasonText(r.Reason, who))
		if r.PID == 0 {
			fmt.Fprintf(&b, " while it waited, for %s; it never ran", age(r.Phases.Queue))
		} else {
			fmt.Fprintf(&b, " after %s", ran)
		}
	case observe.OutcomeSpawnError:
		b.WriteString("could not be started" + s.errorText(r.Error, who))
	case observe.OutcomeRefused:
		b.WriteString("refused" + s.errorText(r.Error, who))
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
		fmt.Fprintf(&b, "killed after %s, but not proven gone: %s left", ran, count(len(r.Containment.Left), "process is", "processes are"))
	default:
		b.WriteString(ascii(string(r.Outcome)))
	}
	if r.OOM != nil {
		fmt.Fprintf(&b, "; %s", printable(r.OOM.Evidence))
	}
	if cut := r.StdoutCut + r.StderrCut; cut > 0 {
		fmt.Fprintf(&b, "; %s of its output were cut", size(cut))
	}
	if r.PipeHeld {
		b.WriteString("; something it left held its output open")
	}
	if n := len(r.Survivors); n > 0 {
		then := "running"
		if r.SurvivorsCut {
			then = "that were ended too"
		}
		fmt.Fprintf(&b, "; it left %d %s: %s", n, then, few(survivorNames(r.Survivors), 3))
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

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func (s *Server) reasonText(reason string, who class) string {
	if reason == "" || who != operator {
		return ""
	}
	return " (" + quoted(s.options.Preview(reason), reasonMost+20) + ")"
}

// errorText is an error, which may quote the command.
func (s *Server) errorText(err string, who class) string {
	if err == "" || who != operator {
		return ""
	}
	return ": " + cut(printable(s.options.Preview(err)), 200)
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
	if look == nil {
		w.sentence += "; it left " + few(survivorNames(x.Processes), 3)
		return w
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
	w.evidence = append(w.evidence, in.holders(look.Pipes, 0, false)...)
	for _, gap := range look.Unreadable {
		w.evidence = append(w.evidence, "unreadable: "+printable(gap))
	}
	found, _, ok := familyOf(look).culprit(look.Window)
	if !ok {
		w.sentence += "; it left " + few(survivorNames(x.Processes), 3)
		return w
	}
	w.sentence += fmt.Sprintf(", and it left %s running, which %s", named(found.process.Process), waitOf(found.process, look.Window).full())
	if more := len(look.Processes) + look.More - 1; more > 0 {
		w.sentence += fmt.Sprintf("; and %d more", more)
	}
	return w
}
