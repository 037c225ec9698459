package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// stringer and valuer say their text in the ways that slog asks for.
type stringer struct{ s string }

func (s stringer) String() string { return s.s }

type valuer struct{ v slog.Value }

func (v valuer) LogValue() slog.Value { return v.v }

type nilPanics struct{ s string }

func (n *nilPanics) Error() string { return n.s }

// logEverywhere puts s in every place of a log line that can hold text.
func logEverywhere(log *slog.Logger, s string) {
	log.With("with "+s, s).WithGroup("group "+s).Error("message "+s,
		s, "as key",
		"string", s,
		"error", errors.New(s),
		"wrapped", fmt.Errorf("step: %w", errors.New(s)),
		"nil error", (*nilPanics)(nil),
		"stringer", stringer{s},
		"bytes", []byte(s),
		"slice", []string{s},
		"map", map[string]any{s: []any{s, stringer{s}}},
		"struct", struct{ A any }{stringer{s}},
		"valuer", valuer{slog.GroupValue(slog.String(s, s), slog.Any("in", valuer{slog.AnyValue(errors.New(s))}))},
		slog.Group(s, slog.String("in", s), slog.Group("deeper", slog.Any(s, errors.New(s)))),
	)
}

// terminalLogger is what NewLogger makes for a terminal.
func terminalLogger(b *bytes.Buffer) *slog.Logger {
	return slog.New(newHandler(b, FormatText, true, slog.LevelDebug))
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

// wantHarmless checks that out is one line that no terminal obeys, apart from
// the colours that tint writes.
func wantHarmless(t *testing.T, out string, colour bool) {
	t.Helper()
	line, ok := strings.CutSuffix(out, "\n")
	if !ok {
		t.Errorf("%q does not end in a newline", out)
	}
	if colour {
		line = sgr.ReplaceAllString(line, "")
	}
	if !utf8.ValidString(line) {
		t.Errorf("%q is not UTF-8", line)
	}
	for _, r := range line {
		if !unicode.IsPrint(r) || unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point) {
			t.Errorf("%q contains %U", line, r)
		}
	}
}

var hostile = []string{
	"plain",
	"\x1b[2Jhi", `\x1b[2Jhi`, `\\x1b[31m`, `\\\x1b]0;x`, "\\\x1bx1b", "\x1b]0;owned\a\x1b[2Jx",
	"a\nb", "a\r\nlevel=ERROR msg=forged", "\u2028line", "\u0085next",
	"\u009b2J", "\x9b2J", "\x7f", "\x00", "\xff\xfe", "\xed\xa0\x80",
	"\u202eevil\u202c", "\u2066x\u2069", "zero\u200bwidth\u200d\ufeff", "\u00ad\u034f\u115f\u3164\ufe0f\U000e0041",
	"", " ", "=", `"`, "{}", "\t", "é日本🙂",
	"\x1b[31mred\x1b[0m",
}

func FuzzNoTerminalObeysLog(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var b bytes.Buffer
		logEverywhere(terminalLogger(&b), s)
		wantHarmless(t, b.String(), true)

		for _, format := range []string{FormatText, FormatJSON} {
			b.Reset()
			logEverywhere(slog.New(newHandler(&b, format, false, slog.LevelDebug)), s)
			wantHarmless(t, b.String(), false)
			if format == FormatJSON && !json.Valid(b.Bytes()) {
				t.Errorf("not JSON: %s", b.String())
			}
		}
	})
}

// A colour in untrusted text is an escape sequence too, and the pattern that the
// fuzz test takes out of tint's output would hide it.
func TestLogShowsColoursOfOthers(t *testing.T) {
	for _, s := range []string{"\x1b[31m", `\x1b[31m`} {
		var b bytes.Buffer
		terminalLogger(&b).Error("message", "key", s)
		if n := len(sgr.FindAllString(b.String(), -1)); n != 2+2+2 { // time, level, key
			t.Errorf("%q: %d colour sequences in %q, want tint's 6", s, n, b.String())
		}
	}
}

func TestVisible(t *testing.T) {
	tests := []struct{ in, want string }{
		{"echo hi", "echo hi"},
		{"é日本", "é日本"},
		{"a\tb\nc\x1b[m\x00\x7f", "a␉b␊c␛[m␀␡"},
		{`printf "\x1b[2J"`, `printf "\e[2J"`},
		{"\u202ex\u200b\u0085", "<U+202E>x<U+200B><U+0085>"},
		{"a\xffb\ufffd", "a<xff>b\ufffd"},
		{"\xc3(", "<xc3>("},
	}
	for _, tt := range tests {
		if got := Visible(tt.in); got != tt.want {
			t.Errorf("Visible(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestVisibleCutsBetweenRunes(t *testing.T) {
	got := Visible(strings.Repeat("x", maxVisible-1) + "日本")
	if want := strings.Repeat("x", maxVisible-1) + "… (6 bytes more)"; got != want {
		t.Errorf("got … %q, want … %q", got[maxVisible-4:], want[maxVisible-4:])
	}
}

func TestNewLoggerFormats(t *testing.T) {
	tests := []struct {
		format string
		json   bool
	}{{FormatAuto, true}, {FormatJSON, true}, {FormatText, false}}
	for _, tt := range tests {
		var b bytes.Buffer
		log, err := NewLogger(&b, tt.format, slog.LevelInfo)
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("not shown")
		log.Info("shown", "key", "value")
		if got := json.Valid(b.Bytes()); got != tt.json {
			t.Errorf("%s: JSON is %v: %q", tt.format, got, b.String())
		}
		if strings.Contains(b.String(), "not shown") || !strings.Contains(b.String(), "shown") {
			t.Errorf("%s: %q", tt.format, b.String())
		}
	}
	if _, err := NewLogger(&bytes.Buffer{}, "xml", slog.LevelInfo); err == nil {
		t.Error("format xml was taken")
	}
}
