package admin

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"execworker/daemon/observe"
)

// The time for an answer does not run while the answer is waited for.
func TestAnswerToALongWaitArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := busyWorker()
		s := serverOf(w)
		w.abort = func(observe.ID, uint64, observe.EndedBy, string) observe.AbortResult {
			time.AfterFunc(answerTime+20*time.Second, func() {
				s.feed.Event(context.Background(), observe.Ended{Receipt: observe.Receipt{Exec: fakeExec(1), Outcome: observe.OutcomeAbort}})
			})
			return observe.AbortKilled
		}
		answer := piped(t, s, http.MethodPost, "/inflight/1/abort?wait=1m&format=json", "")
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(text), `"outcome": "abort"`) {
			t.Errorf("%d %v %s", answer.StatusCode, err, text)
		}
	})
}

// countingWorker counts looks that cost something.
type countingWorker struct {
	*fakeWorker
	receipts, survivors int
}

func (w *countingWorker) Receipts() []observe.Receipt {
	w.receipts++
	return w.fakeWorker.Receipts()
}

func (w *countingWorker) Survivors() []observe.Survivors {
	w.survivors++
	return w.fakeWorker.Survivors()
}

// An end that came with so much else that the feed has forgotten it is found all
// the same.
func TestAbortFindsAnEndThatTheFeedHasForgotten(t *testing.T) {
	w := busyWorker()
	s := serverOf(w)
	w.abort = func(observe.ID, uint64, observe.EndedBy, string) observe.AbortResult {
		r := observe.Receipt{Exec: fakeExec(1), Outcome: observe.OutcomeAbort}
		w.change(func(w *fakeWorker) { w.receipts = append(w.receipts, r) })
		s.feed.Event(t.Context(), observe.Ended{Receipt: r})
		for range feedKept {
			s.feed.Event(t.Context(), ended(9))
		}
		return observe.AbortKilled
	}
	answer := askBody(t, s, operator, http.MethodPost, "/inflight/1/abort?wait=20s&format=json", "")
	var a abortAnswer
	if err := json.Unmarshal(answer.Body.Bytes(), &a); err != nil || answer.Code != 200 || a.Terminal == nil || a.Terminal.Etag != "101" {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}

// Another exec's end is not the one that was waited for.
func TestAbortWaitsForItsOwnExec(t *testing.T) {
	w := busyWorker()
	s := serverOf(w)
	w.abort = func(observe.ID, uint64, observe.EndedBy, string) observe.AbortResult {
		s.feed.Event(t.Context(), ended(2))
		return observe.AbortKilled
	}
	answer := askBody(t, s, operator, http.MethodPost, "/inflight/1/abort?wait=10ms&format=json", "")
	if answer.Code != 202 || !strings.Contains(answer.Body.String(), `"terminal": null`) {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}

// Survivors are waited for by their event, and the process table is not read for
// each of the others.
func TestSurvivorsAreWaitedFor(t *testing.T) {
	w := &countingWorker{fakeWorker: busyWorker()}
	s := serverOf(w.fakeWorker)
	s.worker = w
	w.abortSurvivors = func(uint64) bool {
		for range 100 {
			s.feed.Event(t.Context(), observe.SurvivorsGone{Exec: fakeExec(9)})
		}
		s.feed.Event(t.Context(), observe.SurvivorsGone{Exec: fakeExec(3)})
		return true
	}
	answer := askBody(t, s, operator, http.MethodPost, "/survivors/3/abort?wait=20s&format=json", "")
	if answer.Code != 200 || !strings.Contains(answer.Body.String(), `"gone": true`) {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	if w.survivors != 1 || w.receipts != 0 {
		t.Errorf("%d looks at survivors, %d at receipts", w.survivors, w.receipts)
	}
}

// Where events are gone, what is left is looked at.
func TestSurvivorsAreLookedAtWhereTheFeedHasForgotten(t *testing.T) {
	for name, c := range map[string]struct{ leaves, want int }{"all gone": {0, 200}, "some left": {1, 202}} {
		t.Run(name, func(t *testing.T) {
			w := busyWorker()
			s := serverOf(w)
			w.abortSurvivors = func(uint64) bool {
				w.change(func(w *fakeWorker) { w.survivors = w.survivors[:c.leaves] })
				for range feedKept + 1 {
					s.feed.Event(t.Context(), ended(9))
				}
				return true
			}
			if answer := askBody(t, s, operator, http.MethodPost, "/survivors/3/abort?wait=100ms", ""); answer.Code != c.want {
				t.Errorf("%d %s", answer.Code, answer.Body)
			}
		})
	}
}

func TestEtagIsWrittenInOneWay(t *testing.T) {
	for given, want := range map[string]uint64{
		"101": 101, `"101"`: 101, "18446744073709551615": 1<<64 - 1,
		"": 0, "0": 0, `"0"`: 0, `"101`: 0, `101"`: 0, `""101""`: 0, `W/"101"`: 0, "0101": 0, "+101": 0, " 101": 0, "18446744073709551616": 0, `"101", "102"`: 0,
	} {
		seq, err := parseEtag(given)
		if (err == nil) != (want != 0) || err == nil && seq != want {
			t.Errorf("%q is %d, %v", given, seq, err)
		}
	}
}

// No body but an object is taken for one, and what is wrong is named as JSON
// names it.
func TestBodiesOfAnAct(t *testing.T) {
	for body, says := range map[string]string{
		"null": "no JSON object", "  ": "no JSON object", `"reason"`: "no JSON object", "true": "no JSON object",
		`{"reason":7}`: "reason: it is a number, and has to be a string", `{"reason":"x"`: "unexpected EOF", `{"reason":"x"}x`: "behind the object",
	} {
		answer := askBody(t, serverOf(abortable()), operator, http.MethodPost, "/inflight/1/abort", body)
		var p problem
		if err := json.Unmarshal(answer.Body.Bytes(), &p); err != nil || answer.Code != 400 || !strings.Contains(p.Detail, says) {
			t.Errorf("%s: %d %s", body, answer.Code, answer.Body)
		}
	}
}

// Why there is nothing to abort is said as closely as it is known.
func TestNothingToAbort(t *testing.T) {
	for _, c := range []struct {
		path, etag string
		want       int
		says       string
	}{
		{"/inflight/3/abort", "103", 409, "POST /admin/survivors/3/abort"},
		{"/inflight/3/abort", "99", 412, "execution 103 last, which has ended"},
		{"/inflight/4/abort", "", 409, "outcome timeout"}, // known to dedup alone
		{"/inflight/9/abort", "99", 404, "never came"},
		{"/inflight/1/abort", "0", 400, "is no etag"},
	} {
		answer := askBody(t, serverOf(abortable()), operator, http.MethodPost, c.path, "", "If-Match", c.etag)
		if answer.Code != c.want || !strings.Contains(answer.Body.String(), c.says) {
			t.Errorf("%s of %q: %d %s", c.path, c.etag, answer.Code, answer.Body)
		}
	}
}
