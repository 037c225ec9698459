package telemetry

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"execworker/daemon/observe"
)

// ms is a duration in milliseconds, to the microsecond.
func ms(key string, d time.Duration) slog.Attr {
	return slog.Float64(key, float64(d.Microseconds())/1000)
}

// optional is an attribute that is left out when it is empty.
func optional(key, value string) []slog.Attr {
	if value == "" {
		return nil
	}
	return []slog.Attr{slog.String(key, value)}
}

// receiptAttrs are the main fields of a receipt. What did not happen is left out.
func receiptAttrs(r observe.Receipt) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("outcome", string(r.Outcome)),
		slog.Int("exit_code", r.ExitCode),
		slog.String("ended_by", string(r.EndedBy)),
	}
	attrs = append(attrs, optional("signal", r.Signal)...)
	attrs = append(attrs, optional("error", r.Error)...)
	if r.OOM != nil {
		attrs = append(attrs, slog.String("oom", r.OOM.Evidence), slog.String("oom_confidence", r.OOM.Confidence))
	}
	attrs = append(attrs, counts(
		count{"pid", int64(r.PID)},
		count{"stdout_bytes", r.StdoutBytes},
		count{"stderr_bytes", r.StderrBytes},
		count{"stdout_cut_bytes", r.StdoutCut},
		count{"stderr_cut_bytes", r.StderrCut},
		count{"chunks", r.Chunks},
		count{"max_rss_bytes", r.MaxRSSBytes},
		count{"survivors", int64(len(r.Survivors))},
	)...)
	attrs = append(attrs, times(
		span{"cpu_user_ms", r.UserCPU},
		span{"cpu_system_ms", r.SystemCPU},
		span{"queue_ms", r.Phases.Queue},
		span{"spawn_ms", r.Phases.Spawn},
		span{"first_byte_ms", r.Phases.FirstByte},
		span{"run_ms", r.Phases.Run},
		span{"drain_ms", r.Phases.Drain},
		span{"send_blocked_ms", r.Phases.SendBlocked},
		span{"kill_ms", r.Phases.Kill},
	)...)
	attrs = append(attrs, optional("stdout_sha256", r.StdoutHash)...)
	attrs = append(attrs, optional("stderr_sha256", r.StderrHash)...)
	if r.PipeHeld {
		attrs = append(attrs, slog.Bool("pipe_held", true))
	}
	if r.Collided {
		attrs = append(attrs, slog.Bool("collided", true))
	}
	if r.SurvivorsCut {
		attrs = append(attrs, slog.Bool("survivors_cut", true))
	}
	return append(attrs, containment(r.Containment)...)
}

type count struct {
	key   string
	value int64
}

func counts(all ...count) []slog.Attr {
	var attrs []slog.Attr
	for _, c := range all {
		if c.value != 0 {
			attrs = append(attrs, slog.Int64(c.key, c.value))
		}
	}
	return attrs
}

type span struct {
	key  string
	took time.Duration
}

func times(all ...span) []slog.Attr {
	var attrs []slog.Attr
	for _, s := range all {
		if s.took != 0 {
			attrs = append(attrs, ms(s.key, s.took))
		}
	}
	return attrs
}

// containment is empty when there was no sweep.
func containment(c observe.Containment) []slog.Attr {
	attrs := optional("containment", c.Level)
	attrs = append(attrs, counts(count{"rounds", int64(c.Rounds)}, count{"reaped", int64(c.Reaped)})...)
	if len(c.Left) > 0 {
		attrs = append(attrs, slog.String("left", processes(c.Left)))
	}
	return attrs
}

// processes lists processes as "812 node, 813 sleep", the first 16 of them.
func processes(all []observe.Process) string {
	const shown = 16
	var list []string
	for _, p := range all[:min(len(all), shown)] {
		list = append(list, fmt.Sprintf("%d %s", p.PID, p.Name))
	}
	if more := len(all) - shown; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, ", ")
}

// deniedAttrs are of a request to the admin API by a process of a command. A
// rogue's exec is not known.
func deniedAttrs(e observe.AdminDenied) []slog.Attr {
	attrs := optional("req_id", e.Exec.ID)
	if e.Exec.Source != observe.SourceSandbox {
		attrs = append(attrs, optional("source", e.Exec.Source)...)
	}
	return append(attrs,
		slog.Int("pid", e.Process.PID),
		slog.String("process", e.Process.Name),
		slog.String("method", e.Method),
		slog.String("path", e.Path),
		slog.Int("times", e.Times),
	)
}

func sessionAttrs(s observe.Session) []slog.Attr {
	return []slog.Attr{
		slog.Uint64("session", s.Number),
		slog.String("relay", s.Target),
		slog.Int("attempts", s.Attempt),
	}
}
