package telemetry

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxVisible is how many bytes of one text Visible looks at. A log line is no
// place for more, and the rest would only cost time.
const maxVisible = 4096

// Visible returns s with everything in it that is not plain printable text in a
// visible form: control characters as their pictures (␛, ␊), other invisible,
// bidirectional and zero-width characters as <U+202E>, bytes that are not UTF-8
// as <xff>. Text past 4 KiB is cut and the cut is marked. The result is one line
// of valid UTF-8 that no terminal obeys.
//
// tint turns the four characters \x1b, which a person can type, into a real
// escape byte, so they come out as \e. No visible form may contain them.
func Visible(s string) string {
	cut := 0
	if len(s) > maxVisible {
		end := maxVisible
		for end > maxVisible-utf8.UTFMax && !utf8.RuneStart(s[end]) {
			end--
		}
		s, cut = s[:end], len(s)-end
	}
	if !plain(s) {
		s = escape(s)
	}
	if cut > 0 {
		s = fmt.Sprintf("%s… (%d bytes more)", s, cut)
	}
	return s
}

// plain reports whether s can stay as it is; it is what nearly every text is.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return !strings.Contains(s, `\x1b`)
}

func escape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "<x%02x>", s[i])
		case r < ' ':
			b.WriteRune('\u2400' + r) // the control pictures, in the order of C0
		case r == 0x7f:
			b.WriteRune('\u2421')
		case !shown(r):
			fmt.Fprintf(&b, "<U+%04X>", r)
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return strings.ReplaceAll(b.String(), `\x1b`, `\e`)
}

// shown reports whether r leaves a mark of its own. Of the runes that
// unicode.IsPrint lets through, some are drawn as nothing at all.
func shown(r rune) bool {
	return unicode.IsPrint(r) &&
		!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
