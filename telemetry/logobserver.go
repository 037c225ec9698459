package telemetry

import (
	"context"
	"log/slog"
	"strings"

	"execworker/daemon/observe"
)

// LogObserver writes one log line for each fact. The steps of an exec are at
// debug, its start and end at info, and what an operator should look into is a
// warning. Command text is logged at debug only, redacted and cut.
//
// A relay that is down is told of once, not once an attempt: see relayLog.
type LogObserver struct {
	log   *slog.Logger
	relay *relayLog
}

var _ observe.Observer = (*LogObserver)(nil)

// NewLogObserver returns an observer that writes to log, which [NewLogger] made.
func NewLogObserver(log *slog.Logger) *LogObserver {
	return &LogObserver{log: log, relay: &relayLog{log: log}}
}

// Begin adds nothing to ctx.
func (o *LogObserver) Begin(ctx context.Context, _ observe.Exec) context.Context { return ctx }

// Event writes the line of e.
func (o *LogObserver) Event(ctx context.Context, e observe.Event) {
	switch e := e.(type) {
	case observe.Judged:
		o.judged(ctx, e)
	case observe.Dequeued:
		o.exec(ctx, slog.LevelDebug, "exec dequeued", e.Exec.ID, ms("queue_ms", e.Waited))
	case observe.Spawned:
		o.exec(ctx, slog.LevelInfo, "exec.started", e.Exec.ID, slog.Int("pid", e.PID), ms("spawn_ms", e.Took))
	case observe.FirstOutput:
		o.exec(ctx, slog.LevelDebug, "exec first output", e.Exec.ID,
			slog.String("stream", e.Stream), ms("first_byte_ms", e.After))
	case observe.AbortRequested:
		o.exec(ctx, slog.LevelInfo, "abort requested", e.Exec.ID, append(optional("reason", e.Reason),
			slog.String("by", string(e.By)))...)
	case observe.KillBegan:
		o.exec(ctx, slog.LevelDebug, "kill began", e.Exec.ID, slog.String("by", string(e.By)))
	case observe.KillEnded:
		level := slog.LevelDebug
		if len(e.Containment.Left) > 0 {
			level = slog.LevelError
		}
		o.exec(ctx, level, "kill ended", e.Exec.ID, append(containment(e.Containment), ms("kill_ms", e.Took))...)
	case observe.Ended:
		o.ended(ctx, e.Receipt)
	case observe.SurvivorsFound:
		o.exec(ctx, slog.LevelInfo, "survivors found", e.Exec.ID,
			slog.Bool("kept", e.Kept), slog.String("processes", processes(e.Processes)))
	case observe.SurvivorsGone:
		o.exec(ctx, slog.LevelDebug, "survivors gone", e.Exec.ID)
	default:
		o.worker(ctx, e)
	}
}

// worker writes the lines of events that belong to no exec.
func (o *LogObserver) worker(ctx context.Context, e observe.Event) {
	switch e := e.(type) {
	case observe.Dialing:
		o.log.LogAttrs(ctx, slog.LevelDebug, "dialing relay", sessionAttrs(e.Session)...)
	case observe.Attached:
		o.relay.attached(ctx, e.Session)
	case observe.SessionEnded:
		o.relay.ended(ctx, e)
	case observe.FrameIgnored:
		o.relay.ignored(ctx, e)
	case observe.RogueKilled:
		o.log.LogAttrs(ctx, slog.LevelWarn, "rogue process killed",
			slog.String("process", processes([]observe.Process{e.Process})))
	case observe.WorkspaceSwept:
		if e.Error != "" {
			o.log.LogAttrs(ctx, slog.LevelWarn, "workspace not swept",
				slog.String("workspace_key", e.Key), slog.String("error", e.Error))
			return
		}
		o.log.LogAttrs(ctx, slog.LevelInfo, "workspace swept", slog.String("workspace_key", e.Key))
	case observe.AdmissionClosed:
		o.log.LogAttrs(ctx, slog.LevelInfo, "admission closed", optional("reason", e.Reason)...)
	case observe.AdmissionOpened:
		o.log.LogAttrs(ctx, slog.LevelInfo, "admission opened")
	case observe.AdminDenied:
		o.log.LogAttrs(ctx, slog.LevelWarn, "admin denied", deniedAttrs(e)...)
	case observe.DrainBegan:
		o.log.LogAttrs(ctx, slog.LevelInfo, "drain began", slog.Int("running", e.Running), slog.Int("queued", e.Queued))
	case observe.DrainEnded:
		o.log.LogAttrs(ctx, slog.LevelInfo, "drain ended", ms("took_ms", e.Took), slog.Int("swept", e.Swept))
	}
}

var judgedLines = map[observe.Verdict]struct {
	level   slog.Level
	message string
}{
	observe.VerdictRun:      {slog.LevelDebug, "exec admitted"},
	observe.VerdictJoin:     {slog.LevelInfo, "exec joined"},
	observe.VerdictReplay:   {slog.LevelInfo, "exec replayed"},
	observe.VerdictWait:     {slog.LevelInfo, "exec waits for an earlier run"},
	observe.VerdictConflict: {slog.LevelWarn, "exec refused"},
	observe.VerdictBusy:     {slog.LevelWarn, "exec refused"},
	observe.VerdictRefused:  {slog.LevelWarn, "exec refused"},
}

func (o *LogObserver) judged(ctx context.Context, e observe.Judged) {
	line, ok := judgedLines[e.Verdict]
	if !ok {
		line.level, line.message = slog.LevelWarn, "exec judged"
	}
	if e.Collided {
		o.exec(ctx, slog.LevelWarn, "exec collided", e.Exec.ID,
			slog.String("fingerprint", e.Exec.Fingerprint))
	}
	attrs := append(optional("reason", e.Reason),
		slog.String("verdict", string(e.Verdict)),
		slog.Int("queued", e.Queued),
		slog.Int("running", e.Running),
		slog.Uint64("session", e.Exec.Session))
	if o.log.Enabled(ctx, slog.LevelDebug) {
		attrs = append(attrs, slog.String("command", Preview(e.Exec.Command)))
		attrs = append(attrs, optional("workspace_key", e.Exec.WorkspaceKey)...)
	}
	o.exec(ctx, line.level, line.message, e.Exec.ID, attrs...)
}

func (o *LogObserver) ended(ctx context.Context, r observe.Receipt) {
	level := slog.LevelInfo
	switch {
	case r.Outcome == observe.OutcomeUncontained:
		level = slog.LevelError
	case r.Outcome == observe.OutcomeSpawnError, r.EndedBy == observe.EndedByOOM:
		level = slog.LevelWarn
	}
	if o.log.Enabled(ctx, level) {
		o.exec(ctx, level, "exec.finished", r.Exec.ID, receiptAttrs(r)...)
	}
}

func (o *LogObserver) exec(ctx context.Context, level slog.Level, message string, id observe.ID, attrs ...slog.Attr) {
	if !o.log.Enabled(ctx, level) {
		return
	}
	all := make([]slog.Attr, 0, len(attrs)+4)
	all = append(all, slog.String("req_id", id.ID))
	if x := execOf(ctx); x != nil {
		c := x.root.SpanContext()
		all = append(all, slog.String("trace_id", c.TraceID().String()), slog.String("span_id", c.SpanID().String()))
	}
	if id.Source != observe.SourceSandbox {
		all = append(all, slog.String("source", id.Source))
	}
	o.log.LogAttrs(ctx, level, message, append(all, attrs...)...)
}

// Preview is as much of a command as may be shown to an operator: one line of
// at most 256 runes, without what looks like a secret.
func Preview(command string) string {
	const runes = 256
	// Cut first: looking for secrets in a megabyte would cost more than the exec.
	text := []rune(strings.ToValidUTF8(command[:min(len(command), 4*runes)], "\ufffd"))
	cut := len(text) > runes || len(command) > 4*runes
	preview := Visible(redact(string(text[:min(len(text), runes)])))
	if cut {
		preview += "…"
	}
	return preview
}
