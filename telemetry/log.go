package telemetry

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"
)

// Formats of the log.
const (
	FormatAuto = "auto" // text on a terminal, JSON elsewhere
	FormatText = "text" // for eyes, with colour on a terminal
	FormatJSON = "json" // one object a line
)

// NewLogger returns a logger that writes lines of the given format to w, one
// Write a line. Whether w is a terminal is asked of its method Fd, if it has one.
func NewLogger(w io.Writer, format string, level slog.Leveler) (*slog.Logger, error) {
	terminal := isTerminal(w)
	switch format {
	case FormatAuto:
		format = FormatJSON
		if terminal {
			format = FormatText
		}
	case FormatText, FormatJSON:
	default:
		return nil, fmt.Errorf("log format: %q is none of auto, text, json", format)
	}
	if l, ok := w.(*LineWriter); ok {
		l.setNotice(func(dropped int64) []byte {
			var line bytes.Buffer
			slog.New(newHandler(&line, format, terminal, level)).
				Warn("log lines dropped", "lines", dropped)
			return line.Bytes()
		})
	}
	return slog.New(newHandler(w, format, terminal, level)), nil
}

func newHandler(w io.Writer, format string, colour bool, level slog.Leveler) slog.Handler {
	if format == FormatJSON {
		return sanitiser{next: slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})}
	}
	return sanitiser{next: tint.NewTextHandler(w, &tint.Options{
		Level:      level,
		TimeFormat: time.TimeOnly + ".000",
		NoColor:    !colour,
	})}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}
