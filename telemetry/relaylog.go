package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"execworker/daemon/observe"
)

// settle is how long a session must live before the log says that a relay which
// used to refuse the worker now takes it.
const settle = 2 * time.Second

// relayLog writes the lines about the link to the relay, one for each change of
// its state and none for each attempt:
//
//	            attached (info)
//	   ┌───────────────────────────────┐
//	   │                               ▼
//	  down ◄────────────────────────── up
//	│      ▲     ended (warning)
//	└──────┘
//	ended with another reason or code (warning), with the same ones (debug)
//
// A relay refuses by ending the stream after Hello, so a worker that is refused
// for ever attaches for ever. After a session that ended unhealthy, attached is
// therefore said only once the new session has lived for a while.
type relayLog struct {
	log *slog.Logger

	mu       sync.Mutex // guards what follows
	up       bool
	told     bool   // an end has been told
	reason   string // of the last end that was told
	code     string
	refused  bool        // the last session got as far as Hello
	unsaid   *time.Timer // will say attached
	unsaidOf uint64      // the session it is about
	warned   uint64      // the session that an ignored frame was warned about
}

func (r *relayLog) attached(ctx context.Context, s observe.Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.refused || s.Attempt <= 1 {
		r.sayAttachedLocked(ctx, s)
		return
	}
	r.log.LogAttrs(ctx, slog.LevelDebug, "attached", sessionAttrs(s)...)
	r.unsaidOf = s.Number
	r.unsaid = time.AfterFunc(settle, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.unsaidOf == s.Number {
			r.sayAttachedLocked(context.WithoutCancel(ctx), s)
		}
	})
}

func (r *relayLog) sayAttachedLocked(ctx context.Context, s observe.Session) {
	r.up, r.unsaidOf = true, 0
	r.log.LogAttrs(ctx, slog.LevelInfo, "attached", sessionAttrs(s)...)
}

func (r *relayLog) ended(ctx context.Context, e observe.SessionEnded) {
	s := e.Session
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unsaid != nil {
		r.unsaid.Stop()
		r.unsaid, r.unsaidOf = nil, 0
	}

	level := slog.LevelWarn
	switch {
	case e.Next == 0: // the worker is stopping, or has been told to
		level = slog.LevelInfo
	case r.told && !r.up && s.EndReason == r.reason && s.Code == r.code && s.ExecsLost == 0:
		level = slog.LevelDebug
	}
	r.up, r.told, r.reason, r.code = false, true, s.EndReason, s.Code
	r.refused = !s.HelloAt.IsZero()

	attrs := append(sessionAttrs(s), slog.String("reason", s.EndReason))
	attrs = append(attrs, optional("code", s.Code)...)
	attrs = append(attrs, optional("detail", s.Detail)...)
	attrs = append(attrs, counts(count{"execs_lost", int64(s.ExecsLost)})...)
	attrs = append(attrs, times(span{"next_ms", e.Next})...)
	r.log.LogAttrs(ctx, level, "session ended", attrs...)
}

// ignored warns of the first ignored frame of a session only: a relay can send
// as many as it likes.
func (r *relayLog) ignored(ctx context.Context, e observe.FrameIgnored) {
	r.mu.Lock()
	defer r.mu.Unlock()
	level := slog.LevelDebug
	if r.warned != e.Session {
		r.warned, level = e.Session, slog.LevelWarn
	}
	r.log.LogAttrs(ctx, level, "frame ignored", slog.Uint64("session", e.Session), slog.String("reason", e.Reason))
}
