package admin

import (
	"path"
	"regexp"
	"strconv"
	"strings"
)

var (
	// before is what stands in front of the word that says what a command does: a
	// change of folder and assignments, as in "cd x && env A=1 B=2 make".
	before = regexp.MustCompile(`^\s*(?:cd\s+[^;&|]*(?:&&|;)\s*|env\s+|exec\s+|[A-Za-z_]\w*=(?:'[^']*'|"[^"]*"|[^\s;&|'"]*)\s+)`)
	// plainName is a program's name that can be shown to anybody.
	plainName = regexp.MustCompile(`^[A-Za-z0-9._+-]{1,32}$`)
)

// commandName is the first word of a command that names a program, without its
// folder, or "other": it is shown to everybody, so it must not be able to hold
// anything but a name.
func commandName(command string) string {
	const looked = 1 << 10
	text := command[:min(len(command), looked)]
	for range 16 {
		skip := before.FindStringIndex(text)
		if skip == nil {
			break
		}
		text = text[skip[1]:]
	}
	end := strings.IndexAny(strings.TrimSpace(text), " \t\n;&|()<>")
	word := strings.TrimSpace(text)
	if end >= 0 {
		word = word[:end]
	}
	if name := path.Base(word); word != "" && plainName.MatchString(name) {
		return name
	}
	return "other"
}

// ascii is untrusted text for JSON, text and sentences alike: as it is when it is
// a plain word, else in quotes, with everything else escaped.
func ascii(s string) string {
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("._/+-:@%,=[]", c) >= 0:
		default:
			return strconv.QuoteToASCII(s)
		}
	}
	if s == "" {
		return `""`
	}
	return s
}

// quoted is untrusted text in one column: ASCII, in quotes, at most so many
// characters.
func quoted(s string, most int) string {
	q := strconv.QuoteToASCII(s)
	if len(q) <= most {
		return q
	}
	q = q[:most-4]
	// A cut must not fall into an escape.
	if at := strings.LastIndexByte(q, '\\'); at > len(q)-10 {
		q = q[:at]
	}
	return q + `..."`
}

// printable is a sentence that may hold untrusted text, in ASCII and on one line.
func printable(s string) string {
	q := strconv.QuoteToASCII(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}
