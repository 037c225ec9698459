package admin

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"execworker/daemon/observe"
)

// Every parameter that cannot be used is refused by name, with the way out.
func TestBadParametersAreRefusedByName(t *testing.T) {
	s := fullServer(busyWorker())
	for _, c := range []struct{ target, name string }{
		{"/inflight?state=sleeping", "state"},
		{"/inflight?state=", "state"},
		{"/inflight?state=running&state=queued", "state"},
		{"/inflight?state=running&state=running", "state"},
		{"/inflight?min_age=10", "min_age"},
		{"/inflight?min_age=-1s", "min_age"},
		{"/inflight?min_age=", "min_age"},
		{"/inflight?sort=pid", "sort"},
		{"/inflight?sort=AGE", "sort"},
		{"/inflight?limit=0", "limit"},
		{"/inflight?limit=-1", "limit"},
		{"/inflight?limit=1e3", "limit"},
		{"/inflight?limit=01", "limit"},
		{"/inflight?limit=99999999999999999999", "limit"},
		{"/inflight?outcome=exit", "outcome"},
		{"/inflight?Limit=1", "Limit"},
		{"/inflight/1?procs=2", "procs"},
		{"/execs?outcome=dedup_hit", "outcome"}, // a replay has no receipt
		{"/execs?outcome=exit,signal", "outcome"},
		{"/execs?min_ms=1s", "min_ms"},
		{"/execs?min_ms=-1", "min_ms"},
		{"/execs?min_ms=%2B1", "min_ms"},
		{"/execs?min_ms=1.5", "min_ms"},
		{"/execs?min_ms=9223372036854775807", "min_ms"},
		{"/execs?since=yesterday", "since"},
		{"/execs?since=2026-01-02", "since"},
		{"/execs?since=-5m", "since"},
		{"/execs/3?limit=1", "limit"},
		{"/cache?outcome=abort", "outcome"},
		{"/connections?limit=x", "limit"},
		{"/connections?state=attached", "state"},
		{"/status?verbose=1", "verbose"},
		{"/survivors?limit=1", "limit"},
		{"/flags?name=X", "name"},
		{"/?x=1", "x"},
		{"/openapi.json?x=1", "x"},
		{"/status?format=yaml", "format"},
		{"/status?format=", "format"},
		{"/status?format=ndjson", "format"},
		{"/openapi.json?format=text", "format"},
		{"/inflight?format=json&format=text", "format"},
		{"/inflight?limit=%zz", "query"},
		{"/inflight?limit=1;sort=age", "query"},
	} {
		answer := ask(t, s, operator, http.MethodGet, c.target)
		var p problem
		if err := json.Unmarshal(answer.Body.Bytes(), &p); err != nil {
			t.Fatalf("%s: %v", c.target, err)
		}
		if answer.Code != http.StatusBadRequest || p.Type != "urn:execworker:problem:bad-parameter" || p.Hint == "" {
			t.Errorf("%s: %d %+v", c.target, answer.Code, p)
		}
		if !strings.HasPrefix(p.Detail, c.name+":") && !strings.HasPrefix(p.Detail, c.name+" ") {
			t.Errorf("%s: %q does not begin with %s", c.target, p.Detail, c.name)
		}
	}
}

// Numbers of 64 bits in the one way they are written, and nothing else (case O27).
func TestReqIDsOfPaths(t *testing.T) {
	const beyondFloats, most = 1<<53 + 1, 1<<64 - 1
	w := &fakeWorker{receipts: []observe.Receipt{{Exec: fakeExec(0)}, {Exec: fakeExec(beyondFloats)}, {Exec: fakeExec(most)}}}
	s := serverOf(w)
	for given, want := range map[string]int{
		"0":                    http.StatusOK,
		"9007199254740993":     http.StatusOK,
		"9007199254740992":     http.StatusNotFound, // what a float would make of it
		"18446744073709551615": http.StatusOK,
		"18446744073709551616": http.StatusBadRequest,
		"-1":                   http.StatusBadRequest,
		"%2B1":                 http.StatusBadRequest,
		"1e3":                  http.StatusBadRequest,
		"0x10":                 http.StatusBadRequest,
		"007":                  http.StatusBadRequest,
		"1.0":                  http.StatusBadRequest,
		"1_000":                http.StatusBadRequest,
		"%201":                 http.StatusBadRequest,
		"%D9%A1":               http.StatusBadRequest, // an Arabic 1
		"abc":                  http.StatusBadRequest,
	} {
		answer := ask(t, s, operator, http.MethodGet, "/execs/"+given+"?format=json")
		if answer.Code != want {
			t.Errorf("/execs/%s: %d, want %d: %s", given, answer.Code, want, answer.Body)
		}
		if want == http.StatusBadRequest && !strings.Contains(answer.Body.String(), "problem:bad-req-id") {
			t.Errorf("/execs/%s: %s", given, answer.Body)
		}
		if want == http.StatusOK && !strings.Contains(answer.Body.String(), `"req_id": "`+given+`"`) {
			t.Errorf("/execs/%s is not about it, as a string: %s", given, answer.Body)
		}
	}
}

func TestAskedForNothingItTakesDefaults(t *testing.T) {
	p := paramsOf(requestOf(t, "/x"))
	if n, d, w := p.count("limit", 7), p.span("min_age"), p.word("sort", "age"); n != 7 || d != 0 || w != "" || p.done() != nil {
		t.Errorf("%d %s %q %v", n, d, w, p.done())
	}
}

func TestSinceIsATimeOrAnAge(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for given, want := range map[string]time.Time{
		"2026-01-01T00:00:00Z":          time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		"2026-01-01T00:00:00-01:00":     time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC),
		"2026-01-01T00:00:00.5%2B01:00": time.Date(2025, 12, 31, 23, 0, 0, 5e8, time.UTC),
		"5m":                            now.Add(-5 * time.Minute),
		"0s":                            now,
	} {
		p := paramsOf(requestOf(t, "/x?since="+given))
		if got := p.time("since", now); !got.Equal(want) || p.done() != nil {
			t.Errorf("%s is %s, want %s (%v)", given, got, want, p.done())
		}
	}
}

func requestOf(t *testing.T, target string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
