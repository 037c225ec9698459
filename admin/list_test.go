package admin

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"execworker/daemon/observe"
)

// idsOf are the req_ids that a list answers with, in its order.
func idsOf(t *testing.T, s *Server, target string) []string {
	t.Helper()
	answer := ask(t, s, unknown, http.MethodGet, target, "Accept", "application/json")
	var list struct {
		Execs, Entries []struct {
			ReqID string `json:"req_id"`
		}
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &list); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("%s: %d %v", target, answer.Code, err)
	}
	ids := []string{}
	for _, x := range slices.Concat(list.Execs, list.Entries) {
		ids = append(ids, x.ReqID)
	}
	return ids
}

// running is an exec that runs since age ago and has been quiet for idle.
func running(reqID uint64, age, idle time.Duration, bytes int64) observe.Inflight {
	x := observe.Inflight{Exec: fakeExec(reqID), State: observe.StateRunning, PID: int(reqID), StdoutBytes: bytes}
	x.Exec.ReceivedAt, x.StartedAt = ago(age), ago(age)
	if idle < age {
		x.LastOutputAt = ago(idle)
	}
	return x
}

func TestInflightIsFilteredSortedAndCut(t *testing.T) {
	queued := observe.Inflight{Exec: fakeExec(5), State: observe.StateQueued, QueuePosition: 1}
	queued.Exec.ReceivedAt = ago(200 * time.Second)
	s := serverOf(&fakeWorker{inflight: []observe.Inflight{
		running(7, 100*time.Second, 9*time.Second, 10),
		running(3, 300*time.Second, time.Second, 30),
		running(9, 20*time.Second, 20*time.Second, 20), // no output yet: quiet since it began
		queued,
	}})
	for query, want := range map[string][]string{
		"":                         {"7", "3", "9", "5"}, // as they came
		"?sort=age":                {"3", "5", "7", "9"},
		"?sort=idle":               {"9", "7", "3", "5"}, // what waits is not idle
		"?sort=bytes":              {"3", "9", "7", "5"},
		"?state=queued":            {"5"},
		"?state=killing":           {},
		"?min_age=90s":             {"7", "3", "5"},
		"?min_age=1h":              {},
		"?limit=2":                 {"7", "3"},
		"?sort=bytes&limit=1":      {"3"}, // sorted before it is cut
		"?min_age=90s&limit=9999":  {"7", "3", "5"},
		"?state=running&sort=idle": {"9", "7", "3"},
	} {
		if got := idsOf(t, s, "/inflight"+query); !slices.Equal(got, want) {
			t.Errorf("/inflight%s is %q, want %q", query, got, want)
		}
	}
}

// A clock that was set back, or an exec that came this moment, hides nothing.
func TestNothingIsTooYoungToBeListed(t *testing.T) {
	young := fakeExec(1)
	young.ReceivedAt = time.Now().Add(time.Hour)
	s := serverOf(&fakeWorker{
		inflight: []observe.Inflight{{Exec: young, State: observe.StateQueued}},
		receipts: []observe.Receipt{{Exec: young, EndedAt: time.Now()}},
	})
	for _, target := range []string{"/inflight", "/execs"} {
		if got := idsOf(t, s, target); len(got) != 1 {
			t.Errorf("%s: %q", target, got)
		}
	}
}

func TestExecsAreFilteredAndCut(t *testing.T) {
	receipt := func(reqID uint64, outcome observe.Outcome, took, ended time.Duration) observe.Receipt {
		r := observe.Receipt{Exec: fakeExec(reqID), Outcome: outcome, EndedAt: ago(ended)}
		r.Exec.ReceivedAt = r.EndedAt.Add(-took)
		return r
	}
	s := serverOf(&fakeWorker{receipts: []observe.Receipt{
		receipt(4, observe.OutcomeExit, 100*time.Millisecond, time.Second),
		receipt(3, observe.OutcomeTimeout, 30*time.Second, time.Minute),
		receipt(2, observe.OutcomeExit, 500*time.Millisecond, time.Hour),
		receipt(1, observe.OutcomeLost, time.Second, 2*time.Hour),
	}})
	since := ago(30 * time.Minute).UTC().Format(time.RFC3339)
	for query, want := range map[string][]string{
		"":                            {"4", "3", "2", "1"},
		"?outcome=exit":               {"4", "2"},
		"?outcome=stream_lost":        {"1"},
		"?outcome=drained":            {},
		"?min_ms=500":                 {"3", "2", "1"},
		"?min_ms=501":                 {"3", "1"},
		"?since=30m":                  {"4", "3"},
		"?since=" + since:             {"4", "3"},
		"?limit=1":                    {"4"},
		"?outcome=exit&limit=1":       {"4"},
		"?outcome=exit&min_ms=200":    {"2"},
		"?outcome=timeout&since=10s":  {},
		"?since=3h&min_ms=1&limit=99": {"4", "3", "2", "1"},
	} {
		if got := idsOf(t, s, "/execs"+query); !slices.Equal(got, want) {
			t.Errorf("/execs%s is %q, want %q", query, got, want)
		}
	}
}

func TestEveryOutcomeOfAReceiptCanBeAskedFor(t *testing.T) {
	for _, outcome := range []observe.Outcome{
		observe.OutcomeExit, observe.OutcomeSignal, observe.OutcomeTimeout, observe.OutcomeAbort, observe.OutcomeSpawnError,
		observe.OutcomeRefused, observe.OutcomeLost, observe.OutcomeDrained, observe.OutcomeUncontained,
	} {
		s := serverOf(&fakeWorker{receipts: []observe.Receipt{{Exec: fakeExec(1), Outcome: outcome}}})
		if got := idsOf(t, s, "/execs?outcome="+string(outcome)); len(got) != 1 {
			t.Errorf("%s: %q", outcome, got)
		}
	}
}

func TestAllRunsOfOneReqIDAreShown(t *testing.T) {
	other, again := fakeExec(3), fakeExec(3)
	other.ID, again.Seq = observe.SandboxID(30), 9
	s := serverOf(&fakeWorker{receipts: []observe.Receipt{{Exec: again}, {Exec: other}, {Exec: fakeExec(3)}}})
	if got := idsOf(t, s, "/execs/3"); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

func TestCacheIsFilteredAndCut(t *testing.T) {
	s := serverOf(busyWorker())
	for query, want := range map[string][]string{
		"": {"3", "4"}, "?outcome=timeout": {"4"}, "?outcome=exit": {"3"}, "?limit=1": {"3"}, "?outcome=timeout&limit=1": {"4"},
	} {
		if got := idsOf(t, s, "/cache"+query); !slices.Equal(got, want) {
			t.Errorf("/cache%s is %q, want %q", query, got, want)
		}
	}
}

func TestCacheSaysWhatIsSentAgain(t *testing.T) {
	s := serverOf(busyWorker())
	var list cacheList
	if err := json.Unmarshal(ask(t, s, unknown, http.MethodGet, "/cache?format=json").Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	if list.Len != 2 || list.Misses != 4 { // nine ran, five of them collided
		t.Errorf("len %d, misses %d", list.Len, list.Misses)
	}
	end, timeout := list.Entries[0], list.Entries[1]
	if end.Terminal != "end" || end.ExitCode == nil || *end.ExitCode != 7 || end.ErrorClass != nil || end.Fingerprint != "abababababab" {
		t.Errorf("%+v", end)
	}
	if timeout.Terminal != "error" || timeout.ExitCode != nil || timeout.ErrorClass == nil || *timeout.ErrorClass != "timeout" || timeout.LastHitAt != nil {
		t.Errorf("%+v", timeout)
	}
}

func TestRelayStates(t *testing.T) {
	live := observe.Session{Number: 3, Attempt: 4, DialedAt: ago(time.Second)}
	over := observe.Session{Number: 2, Attempt: 3, DialedAt: ago(time.Minute), EndedAt: ago(time.Second)}
	for want, c := range map[string]struct {
		status   observe.Status
		sessions []observe.Session
		attempt  int
		current  bool
	}{
		"attached": {observe.Status{Attached: true, Session: 3}, []observe.Session{live, over}, 4, true},
		"dialing":  {observe.Status{Session: 3}, []observe.Session{live, over}, 4, true},
		"waiting":  {observe.Status{NextAttempt: time.Now().Add(time.Hour)}, []observe.Session{over}, 4, false},
		"stopping": {observe.Status{Draining: true, NextAttempt: ago(time.Second)}, []observe.Session{over}, 0, false},
	} {
		s := serverOf(&fakeWorker{status: c.status, sessions: c.sessions})
		l := s.connections(time.Now(), mostListed)
		if l.State != want || l.Attempt != c.attempt || (l.Current != nil) != c.current || len(l.History) != 1 || (l.BackoffMS > 0) != (want == "waiting") {
			t.Errorf("%s: %+v", want, l)
		}
	}
}

func TestHistoryOfConnectionsIsCut(t *testing.T) {
	over := observe.Session{Number: 9, EndedAt: ago(time.Second)}
	older := observe.Session{Number: 8, EndedAt: ago(time.Minute)}
	l := serverOf(&fakeWorker{sessions: []observe.Session{over, older}}).connections(fixtureNow, 1)
	if len(l.History) != 1 || l.History[0].Epoch != 9 {
		t.Errorf("%+v", l.History)
	}
}

// An answer says in words that there is nothing: an empty table looks broken.
func TestNothingIsSaidInWords(t *testing.T) {
	s := serverOf(&fakeWorker{})
	for target, want := range map[string]string{
		"/inflight":    "nothing is in flight",
		"/execs":       "no exec has ended yet",
		"/survivors":   "no command has left anything running",
		"/connections": "nothing came before it",
		"/cache":       "0 of 0 kept",
	} {
		if text := textOf(t, s, target); !strings.Contains(text, want) || strings.Contains(text, "REQ_ID") {
			t.Errorf("%s:\n%s", target, text)
		}
	}
	busy := serverOf(busyWorker())
	for target, want := range map[string]string{
		"/inflight?state=waiting": "none of the 2 in flight matches",
		"/execs?outcome=drained":  "none of the last 1 matches",
	} {
		if text := textOf(t, busy, target); !strings.Contains(text, want) {
			t.Errorf("%s:\n%s", target, text)
		}
	}
}
