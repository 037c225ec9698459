package admin

import (
	"path"
	"regexp"
	"strconv"
	"strings"
)

var (
	// plainName is a program's name that can be shown to anybody.
	plainName = regexp.MustCompile(`^[A-Za-z0-9._+-]{1,32}$`)
	// assignment stands before a command: A=1 make.
	assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\+?=`)
)

// commandName is the program that a command begins with, without its folder, or
// "other". A leading "cd x &&", "env", "exec" and assignments are stepped over.
// It is shown to everybody, so what cannot be told from an argument, which may be
// a secret, is "other".
func commandName(command string) string {
	const looked = 1 << 10
	rest := command[:min(len(command), looked)]
	for {
		rest = strings.TrimLeft(rest, " \t\n")
		if comment, after, _ := strings.Cut(rest, "\n"); strings.HasPrefix(comment, "#") {
			rest = after
			continue
		}
		var word string
		var end byte
		if word, end, rest = nextWord(rest); end == unclear {
			return "other"
		}
		switch name := path.Base(word); {
		case assignment.MatchString(word), word == "exec", word == "env":
			if end == 0 || end == '|' { // it was all there is
				return "other"
			}
		case word == "cd":
			for end == ' ' {
				_, end, rest = nextWord(rest)
			}
			if end != '&' && end != ';' {
				return "cd"
			}
		case plainName.MatchString(name) && word != "" && !strings.HasPrefix(word, "-"):
			return name
		default:
			return "other"
		}
	}
}

// CommandName is what of a command may be shown to anybody: the name of the
// program that it begins with, or "other".
func CommandName(command string) string { return commandName(command) }

// unclear is the end of a word that only a shell could find.
const unclear = '?'

// nextWord cuts the first word off a command. end is what came after it: ' ' for
// more words of the same command, '&' for && or a background command, ';' also
// for a new line, '|' for a pipe, 0 for nothing. Quotes are kept, as they make a
// word no plain name.
func nextWord(command string) (word string, end byte, rest string) {
	command = strings.TrimLeft(command, " \t")
	var quote byte
	for i := 0; i < len(command); i++ {
		c := command[i]
		switch {
		case c == '`', c == '$' && strings.HasPrefix(command[i+1:], "("), c == '\\':
			return "", unclear, ""
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'', c == '"':
			quote = c
		case c == ' ', c == '\t':
			rest = strings.TrimLeft(command[i:], " \t")
			if rest == "" || strings.ContainsRune("&;|\n", rune(rest[0])) {
				return command[:i], endOf(rest), strings.TrimLeft(rest, "&;|\n")
			}
			return command[:i], ' ', rest
		case strings.IndexByte("&;|\n", c) >= 0:
			return command[:i], endOf(command[i:]), strings.TrimLeft(command[i:], "&;|\n")
		case strings.IndexByte("<>(){}#", c) >= 0:
			return "", unclear, ""
		}
	}
	if quote != 0 {
		return "", unclear, ""
	}
	return command, 0, ""
}

func endOf(rest string) byte {
	switch {
	case rest == "":
		return 0
	case rest[0] == '\n':
		return ';'
	}
	return rest[0]
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
	q := strconv.QuoteToASCII(unpictured(s))
	if len(q) <= most {
		return q
	}
	q = q[:most-4]
	// A cut must not fall into an escape.
	if at := strings.LastIndexByte(q, '\\'); at > 0 && at > len(q)-10 {
		q = q[:at]
	}
	return q + `..."`
}

// printable is a sentence that may hold untrusted text, in ASCII and on one line.
func printable(s string) string {
	q := strconv.QuoteToASCII(unpictured(s))
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

// unpictured gives control characters their own numbers back, where they were
// made visible as pictures before: quoted, \x1b says more than \u241b.
func unpictured(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '\u2400' && r < '\u2420':
			return r - '\u2400'
		case r == '\u2421':
			return 0x7f
		}
		return r
	}, s)
}
