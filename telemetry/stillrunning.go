package telemetry

import (
	"context"
	"log/slog"
	"time"

	"execworker/daemon/observe"
)

const (
	stillFirst = 30 * time.Second // after which a running exec is logged, and again after twice as long
	stillEvery = time.Second      // between two looks
)

// StillRunning logs execs that do not end, until ctx does: 30 s after their
// start, 1 min, 2 min, 4 min. A trace is exported when its exec ends, so until
// then this line is what can be found of it.
func StillRunning(ctx context.Context, log *slog.Logger, inflight func() []observe.Inflight) {
	ticker := time.NewTicker(stillEvery)
	defer ticker.Stop()
	s := still{log: log, next: make(map[uint64]time.Duration)}
	for {
		select {
		case <-ticker.C:
			s.look(ctx, inflight(), time.Now())
		case <-ctx.Done():
			return
		}
	}
}

type still struct {
	log  *slog.Logger
	next map[uint64]time.Duration // how old each exec is when it is logged next
}

func (s *still) look(ctx context.Context, all []observe.Inflight, now time.Time) {
	known := s.next
	s.next = make(map[uint64]time.Duration, len(all))
	for _, x := range all {
		if x.StartedAt.IsZero() {
			continue
		}
		next, ok := known[x.Exec.Seq]
		if !ok {
			next = stillFirst
		}
		if age := now.Sub(x.StartedAt); age >= next {
			s.say(ctx, x, now)
			for next <= age { // the program may have stood still
				next *= 2
			}
		}
		s.next[x.Exec.Seq] = next
	}
}

func (s *still) say(ctx context.Context, x observe.Inflight, now time.Time) {
	idle := now.Sub(x.StartedAt)
	if !x.LastOutputAt.IsZero() {
		idle = now.Sub(x.LastOutputAt)
	}
	attrs := []slog.Attr{slog.String("req_id", x.Exec.ID.ID)}
	if t := x.Exec.Trace; t.ID != "" {
		attrs = append(attrs, slog.String("trace_id", t.ID), slog.String("span_id", t.SpanID))
	}
	attrs = append(attrs, slog.String("state", string(x.State)), slog.Int("pid", x.PID), ms("run_ms", now.Sub(x.StartedAt)), ms("idle_ms", idle),
		slog.Int64("stdout_bytes", x.StdoutBytes), slog.Int64("stderr_bytes", x.StderrBytes), slog.Bool("send_waiting", x.SendWaiting))
	s.log.LogAttrs(ctx, slog.LevelInfo, "exec.still_running", attrs...)
}
