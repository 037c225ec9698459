package telemetry

import "regexp"

// secrets find texts that look like credentials. The first group of each is
// what names the secret, and the last what ends it; they stay.
var secrets = []*regexp.Regexp{
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

// redact puts a mark in the place of what looks like a secret. It is no
// guarantee: the first rule is that command text is not logged.
func redact(s string) string {
	for _, secret := range secrets {
		s = secret.ReplaceAllString(s, "${1}[redacted]${2}")
	}
	return s
}
