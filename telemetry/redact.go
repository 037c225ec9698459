package telemetry

import "regexp"

// secrets find texts that look like credentials. The first group of each is
// what names the secret, and the last what ends it; they stay.
var secrets = []*regexp.Regexp{
	// The body of a private key, its lines real or written as \n, and cut or not.
	regexp.MustCompile(`(?s)(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----).+?(-----END|$)`),
	// Authorization: Bearer x, and a bare "Bearer x".
	regexp.MustCompile(`(?i)(\bauthorization\s*[:=]\s*(?:(?:bearer|basic|token)\s+)?|\bbearer\s+)[^\s'"]+()`),
	// MY_API_KEY=x, "password": "x".
	regexp.MustCompile(`(?i)(\b[\w.-]*(?:token|secret|passw(?:or)?d|key|credential)s?\b['"]?\s*[:=]\s*)` + value + `()`),
	// --password x, --token=x.
	regexp.MustCompile(`(?i)(--?[\w-]*(?:token|secret|passw(?:or)?d|key|credential)s?[= ]\s*)` + value + `()`),
	// https://user:x@host.
	regexp.MustCompile(`(\w+://[^\s/:@'"]*:)[^\s/@'"]+(@)`),
	// Tokens that name themselves.
	regexp.MustCompile(`()\b(?:gh[opsu]_|github_pat_|AKIA|xox[abpr]-|sk-)[\w-]{8,}()`),
	// Long runs of base64 or hex.
	regexp.MustCompile(`()[A-Za-z0-9+/_-]{41,}={0,2}()`),
}

// value is a shell word, quoted or not, or the rest of one that was cut.
const value = `(?:'[^']*'?|"[^"]*"?|[^\s;&|'"]+)`

// mysql is one of the programs, to the end of the text: what ends the command is
// more than a pattern can say. attached is their password, behind -p without a
// space; -P is a port, and -p alone asks.
var (
	mysql    = regexp.MustCompile(`(?s)\b(?:mysql|mariadb)[\w.-]*['"]?\s.*`)
	attached = regexp.MustCompile(`(\s'-p)[^']+|(\s"-p)(?:\\.|[^"\\])+|(\s-p)(?:'[^']*'?|"(?:\\.|[^"\\])*"?|\\.|[^\s;&|'"\\])+`)
)

// redact puts a mark in the place of what looks like a secret. It is no
// guarantee: the first rule is that command text is not logged.
func redact(s string) string {
	s = mysql.ReplaceAllStringFunc(s, func(command string) string {
		return attached.ReplaceAllString(command, "${1}${2}${3}[redacted]")
	})
	for _, secret := range secrets {
		s = secret.ReplaceAllString(s, "${1}[redacted]${2}")
	}
	return s
}
