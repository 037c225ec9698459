package admin

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// parseEtag reads an etag as the lists show it, in quotes as HTTP wants it or
// bare. It is never 0, which no execution has.
func parseEtag(given string) (uint64, error) {
	if unquoted, ok := strings.CutPrefix(given, `"`); ok {
		if given, ok = strings.CutSuffix(unquoted, `"`); !ok {
			return 0, strconv.ErrSyntax
		}
	}
	seq, err := strconv.ParseUint(given, 10, 64)
	if err == nil && (seq == 0 || etagOf(seq) != given) {
		err = strconv.ErrSyntax
	}
	return seq, err
}

// levelRevert puts the log level back when its time is over.
type levelRevert struct {
	start slog.Level // that the worker was started with

	mu    sync.Mutex
	timer *time.Timer
	at    time.Time // zero when nothing will be put back
}

// set sets the level, for so long; 0 is until somebody sets it again.
func (l *levelRevert) set(level *slog.LevelVar, to slog.Level, span time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopLocked()
	level.Set(to)
	if span == 0 {
		return
	}
	l.at = time.Now().Add(span)
	var mine *time.Timer
	mine = time.AfterFunc(span, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.timer == mine { // else a later one has taken over
			level.Set(l.start)
			l.stopLocked()
		}
	})
	l.timer = mine
}

func (l *levelRevert) stopLocked() {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer, l.at = nil, time.Time{}
}

func (l *levelRevert) cancel() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopLocked()
}

func (l *levelRevert) when() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at
}

// levelView is the level of the log.
type levelView struct {
	Level     string  `json:"level"`
	Default   string  `json:"default"`
	RevertsAt *string `json:"reverts_at"` // null: it stays
}

// levelBody is what PUT /loglevel takes.
type levelBody struct {
	Level string `json:"level"`
	For   string `json:"for"`
}

var levels = []string{"debug", "info", "warn", "error"}

// levelSpanMost is how long a level may be set for.
const levelSpanMost = 24 * time.Hour

func (s *Server) level() levelView {
	return levelView{
		Level: strings.ToLower(s.options.Level.Level().String()), Default: strings.ToLower(s.revert.start.String()),
		RevertsAt: when(s.revert.when()),
	}
}

func (v levelView) text(t *table) {
	t.row("level", v.Level)
	t.row("default", v.Default)
	t.row("reverts at", word(v.RevertsAt))
}

func (s *Server) showLevel(w http.ResponseWriter, r *http.Request) {
	if no := paramsOf(r).done(); no != nil {
		refuse(w, r, *no)
		return
	}
	v := s.level()
	answer(w, r, http.StatusOK, v, v.text)
}

func (s *Server) setLevel(w http.ResponseWriter, r *http.Request) {
	var body levelBody
	no := paramsOf(r).done()
	if no == nil {
		no = readBody(w, r, &body)
	}
	if no == nil && !slices.Contains(levels, body.Level) {
		no = &refusal{kind: badBody, detail: "level: " + ascii(body.Level) + " is none of them", hint: "use one of " + strings.Join(levels, ", ")}
	}
	var span time.Duration
	if no == nil && body.For != "" {
		var err error
		if span, err = time.ParseDuration(body.For); err != nil || span <= 0 || span > levelSpanMost {
			no = &refusal{kind: badBody, detail: "for: " + ascii(body.For) + " is no time up to 24h", hint: "use one such as 10m, or leave it out to keep the level"}
		}
	}
	if no != nil {
		refuse(w, r, *no)
		return
	}
	var level slog.Level
	_ = level.UnmarshalText([]byte(body.Level)) // it is one of levels
	s.revert.set(s.options.Level, level, span)
	v := s.level()
	answer(w, r, http.StatusOK, v, v.text)
}

// drainAnswer says whether new execs are refused.
type drainAnswer struct {
	Draining bool   `json:"draining"`
	Reason   string `json:"reason"`
}

func (v drainAnswer) text(t *table) {
	if v.Draining {
		t.line("new execs are refused: %s", quoted(v.Reason, 200))
		return
	}
	t.line("new execs are taken")
}

func (s *Server) closeAdmission(w http.ResponseWriter, r *http.Request) {
	var body reasonBody
	no := paramsOf(r).done()
	if no == nil {
		no = readBody(w, r, &body)
	}
	if no == nil && utf8.RuneCountInString(body.Reason) > reasonMost {
		no = &refusal{kind: badBody, detail: fmt.Sprintf("reason: it has more than %d characters", reasonMost), hint: "use a shorter one"}
	}
	if no != nil {
		refuse(w, r, *no)
		return
	}
	s.worker.CloseAdmission(body.Reason)
	v := drainAnswer{Draining: true, Reason: s.options.Preview(s.worker.Status().ClosedReason)}
	answer(w, r, http.StatusAccepted, v, v.text)
}

func (s *Server) openAdmission(w http.ResponseWriter, r *http.Request) {
	if no := paramsOf(r).done(); no != nil {
		refuse(w, r, *no)
		return
	}
	if err := s.worker.OpenAdmission(); err != nil {
		refuse(w, r, refusal{kind: stopping, detail: printable(err.Error()), hint: "a worker that stops cannot be told to go on: start another one"})
		return
	}
	v := drainAnswer{}
	answer(w, r, http.StatusOK, v, v.text)
}
