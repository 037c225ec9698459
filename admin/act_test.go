package admin

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"execworker/daemon/observe"
)

// abortable makes a worker whose execs can be aborted: what runs ends at once.
func abortable() *fakeWorker {
	w := busyWorker()
	w.abort = func(id observe.ID, seq uint64, by observe.EndedBy, reason string) observe.AbortResult {
		return observe.AbortKilled
	}
	return w
}

func TestAbort(t *testing.T) {
	long := strings.Repeat("x", 121)
	for _, c := range []struct {
		name, path, body string
		headers          []string
		want             int
		says             string
	}{
		{"in flight", "/inflight/1/abort", "", nil, 202, `"effect": "killed"`},
		{"with a reason", "/inflight/1/abort", `{"reason":"too slow"}`, nil, 202, `"effect": "killed"`},
		{"with its etag", "/inflight/1/abort", "", []string{"If-Match", `"101"`}, 202, `"etag": "101"`},
		{"with its etag bare", "/inflight/1/abort", "", []string{"If-Match", "101"}, 202, "killed"},
		{"with any etag", "/inflight/1/abort", "", []string{"If-Match", "*"}, 202, "killed"},
		{"another execution", "/inflight/1/abort", "", []string{"If-Match", "100"}, 412, "other-exec"},
		{"no etag at all", "/inflight/1/abort", "", []string{"If-Match", "x"}, 400, "If-Match"},
		{"from a page without an etag", "/inflight/1/abort", "", []string{"Sec-Fetch-Site", "same-origin"}, 428, "needs-if-match"},
		{"from an origin without an etag", "/inflight/1/abort", "", []string{"Origin", "http://localhost"}, 428, "needs-if-match"},
		{"that has ended", "/inflight/3/abort", "", nil, 409, "already-finished"},
		{"that never was", "/inflight/9/abort", "", nil, 404, "not-found"},
		{"no number", "/inflight/x/abort", "", nil, 400, "bad-req-id"},
		{"a reason that is too long", "/inflight/1/abort", `{"reason":"` + long + `"}`, nil, 400, "reason"},
		{"a field that is not known", "/inflight/1/abort", `{"resaon":"x"}`, nil, 400, "resaon"},
		{"a field of another type", "/inflight/1/abort", `{"reason":1}`, nil, 400, "reason"},
		{"no object", "/inflight/1/abort", `[]`, nil, 400, "bad-body"},
		{"two objects", "/inflight/1/abort", `{}{}`, nil, 400, "behind the object"},
		{"no JSON", "/inflight/1/abort", `reason=x`, nil, 400, "bad-body"},
		{"no UTF-8", "/inflight/1/abort", "{\"reason\":\"\xff\"}", nil, 400, "UTF-8"},
		{"a body that is too large", "/inflight/1/abort", `{"reason":"` + strings.Repeat("x", bodyMost) + `"}`, nil, 413, "body-too-large"},
		{"a wait that is too long", "/inflight/1/abort?wait=2m", "", nil, 400, "wait"},
		{"a wait that is none", "/inflight/1/abort?wait=soon", "", nil, 400, "wait"},
		{"what nobody asked for", "/inflight/1/abort?force=1", "", nil, 400, "force"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := abortable()
			aborted := 0
			w.abort = func(observe.ID, uint64, observe.EndedBy, string) observe.AbortResult {
				aborted++
				return observe.AbortKilled
			}
			answer := askBody(t, serverOf(w), operator, http.MethodPost, c.path, c.body, append(c.headers, "Accept", "application/json")...)
			if answer.Code != c.want || !strings.Contains(answer.Body.String(), c.says) {
				t.Errorf("%d %s", answer.Code, answer.Body)
			}
			if (aborted > 0) != (c.want == 202) {
				t.Errorf("aborted %d times", aborted)
			}
		})
	}
}

func TestAbortPassesOnWhoAndWhy(t *testing.T) {
	w := busyWorker()
	var got []any
	w.abort = func(id observe.ID, seq uint64, by observe.EndedBy, reason string) observe.AbortResult {
		got = []any{id, seq, by, reason}
		return observe.AbortDequeued
	}
	answer := askBody(t, serverOf(w), operator, http.MethodPost, "/inflight/2/abort?format=json", `{"reason":"too slow"}`)
	want := []any{observe.SandboxID(2), uint64(102), observe.EndedByAdmin, "too slow"}
	for i := range want {
		if got == nil || got[i] != want[i] {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if !strings.Contains(answer.Body.String(), `"dequeued"`) {
		t.Errorf("%s", answer.Body)
	}
}

// The exec ends between the list and the abort: the answer is its receipt's.
func TestAbortThatComesTooLate(t *testing.T) {
	w := busyWorker()
	w.abort = func(observe.ID, uint64, observe.EndedBy, string) observe.AbortResult {
		w.change(func(w *fakeWorker) {
			w.inflight = nil
			w.receipts = []observe.Receipt{{Exec: fakeExec(1), Outcome: observe.OutcomeExit, PID: 1}}
		})
		return observe.AbortNone
	}
	answer := askBody(t, serverOf(w), operator, http.MethodPost, "/inflight/1/abort", "")
	if answer.Code != 409 || !strings.Contains(answer.Body.String(), "outcome exit") {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}

func TestAbortWaitsForTheEnd(t *testing.T) {
	w := busyWorker()
	s := serverOf(w)
	w.abort = func(observe.ID, uint64, observe.EndedBy, string) observe.AbortResult {
		go func() {
			r := observe.Receipt{Exec: fakeExec(1), Outcome: observe.OutcomeAbort, EndedBy: observe.EndedByAdmin, EndedAt: time.Now()}
			w.change(func(w *fakeWorker) { w.receipts = append(w.receipts, r) })
			s.feed.Event(t.Context(), observe.Ended{Receipt: r})
		}()
		return observe.AbortKilled
	}
	answer := askBody(t, s, operator, http.MethodPost, "/inflight/1/abort?wait=20s&format=json", "")
	var a abortAnswer
	if err := json.Unmarshal(answer.Body.Bytes(), &a); err != nil || answer.Code != 200 || a.Terminal == nil || a.Terminal.Outcome != "abort" {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}

func TestAbortWaitsNoLongerThanAsked(t *testing.T) {
	answer := askBody(t, serverOf(abortable()), operator, http.MethodPost, "/inflight/1/abort?wait=10ms&format=json", "")
	if answer.Code != 202 || !strings.Contains(answer.Body.String(), `"terminal": null`) {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}

func TestOnlyAnOperatorChangesAnything(t *testing.T) {
	for _, each := range serverOf(busyWorker()).actRoutes() {
		path := strings.ReplaceAll(each.path, "{req_id}", "1")
		w := abortable()
		if answer := askBody(t, serverOf(w), unknown, each.method, path, ""); answer.Code != 401 || answer.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s: %d", each.method, path, answer.Code)
		}
	}
}

func TestSurvivorsAreEnded(t *testing.T) {
	w := busyWorker()
	var swept []uint64
	w.abortSurvivors = func(seq uint64) bool { swept = append(swept, seq); return true }
	s := serverOf(w)
	for path, want := range map[string]int{"/survivors/3/abort": 202, "/survivors/9/abort": 404, "/survivors/x/abort": 400} {
		if answer := askBody(t, s, operator, http.MethodPost, path, ""); answer.Code != want {
			t.Errorf("%s: %d %s", path, answer.Code, answer.Body)
		}
	}
	if len(swept) != 1 || swept[0] != 103 {
		t.Errorf("swept %v", swept)
	}
	if answer := askBody(t, s, operator, http.MethodPost, "/survivors/3/abort", "", "If-Match", "1"); answer.Code != 412 || len(swept) != 1 {
		t.Errorf("another etag: %d %s", answer.Code, answer.Body)
	}
}

func TestLogLevel(t *testing.T) {
	level := new(slog.LevelVar)
	s := serverOf(busyWorker(), func(o *Options) { o.Level = level })
	for _, c := range []struct {
		body string
		want int
		then slog.Level
	}{
		{`{"level":"debug"}`, 200, slog.LevelDebug}, {`{"level":"error","for":"10m"}`, 200, slog.LevelError},
		{`{"level":"loud"}`, 400, slog.LevelError}, {`{"level":"DEBUG"}`, 400, slog.LevelError}, {`{}`, 400, slog.LevelError}, {``, 400, slog.LevelError},
		{`{"level":"debug","for":"-1s"}`, 400, slog.LevelError}, {`{"level":"debug","for":"25h"}`, 400, slog.LevelError}, {`{"level":"debug","for":"x"}`, 400, slog.LevelError},
	} {
		if answer := askBody(t, s, operator, http.MethodPut, "/loglevel", c.body); answer.Code != c.want || level.Level() != c.then {
			t.Errorf("%s: %d, level %v: %s", c.body, answer.Code, level.Level(), answer.Body)
		}
	}
	if got := textOf(t, s, "/loglevel"); !strings.Contains(got, "error") || !strings.Contains(got, "info") {
		t.Errorf("%s", got)
	}
	s.revert.cancel()
}

func TestLogLevelRevertsByItself(t *testing.T) {
	level := new(slog.LevelVar)
	s := serverOf(busyWorker(), func(o *Options) { o.Level = level })
	askBody(t, s, operator, http.MethodPut, "/loglevel", `{"level":"error","for":"1h"}`)
	askBody(t, s, operator, http.MethodPut, "/loglevel", `{"level":"debug","for":"10ms"}`)
	for deadline := time.Now().Add(10 * time.Second); level.Level() != slog.LevelInfo; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the level stays %v", level.Level())
		}
	}
	if at := s.revert.when(); !at.IsZero() {
		t.Errorf("it reverts again at %v", at)
	}
}

func TestAdmissionIsClosedAndOpened(t *testing.T) {
	w := busyWorker()
	s := serverOf(w)
	if answer := askBody(t, s, operator, http.MethodPost, "/drain", `{"reason":"image update"}`); answer.Code != 202 || !w.Status().Closed || w.Status().ClosedReason != "image update" {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	if answer := askBody(t, s, operator, http.MethodDelete, "/drain", ""); answer.Code != 200 || w.Status().Closed {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	w.openError = errors.New("worker is stopping")
	if answer := askBody(t, s, operator, http.MethodDelete, "/drain", ""); answer.Code != 409 || !strings.Contains(answer.Body.String(), "stopping") {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}

func TestDebugIsOffUnlessAskedFor(t *testing.T) {
	off, on := serverOf(busyWorker()), serverOf(busyWorker(), func(o *Options) {
		o.Debug, o.Tracez = true, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("spans")) })
	})
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/vars", "/debug/tracez"} {
		if answer := ask(t, off, operator, "GET", path); answer.Code != 403 || !strings.Contains(answer.Body.String(), "ADMIN_DEBUG") {
			t.Errorf("%s off: %d", path, answer.Code)
		}
		if answer := ask(t, on, unknown, "GET", path); answer.Code != 401 {
			t.Errorf("%s for others: %d", path, answer.Code)
		}
		if answer := ask(t, on, operator, "GET", path); answer.Code != 200 || answer.Body.Len() == 0 {
			t.Errorf("%s on: %d", path, answer.Code)
		}
	}
}
