package admin

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
)

// params reads the parameters of one request. The first one that is wrong is
// kept in no; whoever asks for more gets zero values.
type params struct {
	r     *http.Request
	known []string
	no    *refusal
}

// paramsOf refuses, with done, every parameter that was not asked for. The
// format is formatOf's to read.
func paramsOf(r *http.Request) *params {
	p := &params{r: r}
	p.one("format")
	return p
}

func (p *params) fail(name, detail, hint string) {
	if p.no == nil {
		p.no = &refusal{kind: badParameter, detail: name + ": " + detail, hint: hint}
	}
}

// one is the value of a parameter that may be there once. ok is false when it is
// not there.
func (p *params) one(name string) (value string, ok bool) {
	p.known = append(p.known, name)
	values := p.r.URL.Query()[name]
	if len(values) > 1 {
		p.fail(name, "it is there more than once", "give it once")
	}
	if len(values) == 0 {
		return "", false
	}
	return values[0], true
}

// word is a parameter that is one of words; "" when it is not there.
func (p *params) word(name string, words ...string) string {
	value, ok := p.one(name)
	if ok && !slices.Contains(words, value) {
		p.fail(name, fmt.Sprintf("%q is none of them", value), "use one of "+strings.Join(words, ", "))
		return ""
	}
	return value
}

// count is a whole number from 1 to most; most when it is not there.
func (p *params) count(name string, most int) int {
	value, ok := p.one(name)
	if !ok {
		return most
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > most || strconv.Itoa(n) != value {
		p.fail(name, fmt.Sprintf("%q is no number from 1 to %d", value, most), "leave it out to get all")
		return most
	}
	return n
}

// span is a duration; 0 when it is not there.
func (p *params) span(name string) time.Duration {
	value, ok := p.one(name)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		p.fail(name, fmt.Sprintf("%q is no duration", value), "use one such as 500ms, 10s or 5m")
		return 0
	}
	return d
}

// millis is a number of milliseconds; 0 when it is not there.
func (p *params) millis(name string) time.Duration {
	value, ok := p.one(name)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || n > int64(100*365*24*time.Hour/time.Millisecond) || strconv.FormatInt(n, 10) != value {
		p.fail(name, fmt.Sprintf("%q is no number of milliseconds", value), "use a whole number such as 500")
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

// time is a moment, or an age such as 5m before now; zero when it is not there.
func (p *params) time(name string, now time.Time) time.Time {
	value, ok := p.one(name)
	if !ok {
		return time.Time{}
	}
	if d, err := time.ParseDuration(value); err == nil && d >= 0 {
		return now.Add(-d)
	}
	t, err := time.Parse(time.RFC3339, value)
	if err != nil {
		p.fail(name, fmt.Sprintf("%q is no time", value), "use one such as 2026-01-02T15:04:05Z, or an age such as 5m")
		return time.Time{}
	}
	return t
}

// done says what was wrong, unknown parameters included, and what was dropped
// because it cannot be read.
func (p *params) done() *refusal {
	query, err := url.ParseQuery(p.r.URL.RawQuery)
	if err != nil {
		p.fail("query", err.Error(), "percent-encode what is not a letter or a digit")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(p.known, name) {
			p.fail(name, "there is no such parameter here", "use any of "+strings.Join(p.known, ", "))
		}
	}
	return p.no
}

// reqIDOf reads the req_id of the path: a decimal number of 64 bits, written in
// the one way there is.
func reqIDOf(r *http.Request) (string, *refusal) {
	given := chi.URLParam(r, "req_id")
	n, err := strconv.ParseUint(given, 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != given {
		return "", &refusal{
			kind:   badReqID,
			detail: fmt.Sprintf("req_id: %q is no whole number from 0 to 18446744073709551615", given),
			hint:   "use the req_id as the list shows it",
		}
	}
	return given, nil
}

// words is a list of words with commas between.
func (p *params) words(name string, known []string) []string {
	value, ok := p.one(name)
	if !ok {
		return nil
	}
	words := strings.Split(value, ",")
	for _, w := range words {
		if !slices.Contains(known, w) {
			p.fail(name, fmt.Sprintf("%q is none of them", w), "use any of "+strings.Join(known, ", "))
		}
	}
	return words
}

// between is a duration in a range; least when it is not there.
func (p *params) between(name string, least, most time.Duration) time.Duration {
	given := p.span(name)
	if given == 0 {
		return least
	}
	if given < least || given > most {
		p.fail(name, fmt.Sprintf("%s is not from %s to %s", given, least, most), "leave it out to get "+least.String())
		return least
	}
	return given
}

// number is a whole number; ok is false when it is not there.
func (p *params) number(name string) (n uint64, ok bool) {
	value, ok := p.one(name)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		p.fail(name, fmt.Sprintf("%q is no whole number", value), "use a seq as the stream shows it")
	}
	return n, err == nil
}
