package admin

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"execworker/daemon/observe"
)

// fakeWorker is a worker that shows what it was told to. Its fields may be
// changed by change only, once a server has it.
type fakeWorker struct {
	mu          sync.Mutex
	status      observe.Status
	inflight    []observe.Inflight
	receipts    []observe.Receipt
	dedup       observe.Dedup
	sessions    []observe.Session
	survivors   []observe.Survivors
	inspections map[uint64]observe.Inspection
	openError   error // of OpenAdmission

	// abort answers Abort, AbortNone without it; both are called without mu held.
	abort          func(id observe.ID, seq uint64, by observe.EndedBy, reason string) observe.AbortResult
	abortSurvivors func(seq uint64) bool
	inspected      int // calls of Inspect
}

var _ Worker = (*fakeWorker)(nil)

func (w *fakeWorker) change(change func(*fakeWorker)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

func shown[T any](w *fakeWorker, of func() T) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return of()
}

func (w *fakeWorker) Status() observe.Status {
	return shown(w, func() observe.Status { return w.status })
}

func (w *fakeWorker) Inflight() []observe.Inflight {
	return shown(w, func() []observe.Inflight { return slices.Clone(w.inflight) })
}

func (w *fakeWorker) Receipts() []observe.Receipt {
	return shown(w, func() []observe.Receipt { return slices.Clone(w.receipts) })
}

func (w *fakeWorker) Dedup() observe.Dedup {
	return shown(w, func() observe.Dedup { return w.dedup })
}

func (w *fakeWorker) Sessions() []observe.Session {
	return shown(w, func() []observe.Session { return slices.Clone(w.sessions) })
}

func (w *fakeWorker) Survivors() []observe.Survivors {
	return shown(w, func() []observe.Survivors { return slices.Clone(w.survivors) })
}

func (w *fakeWorker) Inspect(_ context.Context, seqs []uint64, _ bool) map[uint64]observe.Inspection {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inspected++
	found := map[uint64]observe.Inspection{}
	for seq, in := range w.inspections {
		if seqs == nil || slices.Contains(seqs, seq) {
			found[seq] = in
		}
	}
	return found
}

func (w *fakeWorker) Abort(id observe.ID, seq uint64, by observe.EndedBy, reason string) observe.AbortResult {
	if w.abort == nil {
		return observe.AbortNone
	}
	return w.abort(id, seq, by, reason)
}

func (w *fakeWorker) AbortSurvivors(seq uint64) bool {
	return w.abortSurvivors != nil && w.abortSurvivors(seq)
}

func (w *fakeWorker) CloseAdmission(reason string) {
	w.change(func(w *fakeWorker) { w.status.Closed, w.status.ClosedReason = true, reason })
}

func (w *fakeWorker) OpenAdmission() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.openError == nil {
		w.status.Closed, w.status.ClosedReason = false, ""
	}
	return w.openError
}

// serverOf is a server of w that listens nowhere: ask says who is asking.
func serverOf(w *fakeWorker, changes ...func(*Options)) *Server {
	o := Options{Worker: w, Feed: NewFeed(), Preview: func(s string) string { return "preview of " + s }, Version: "v0-test", InstanceID: "instance-1", BootID: "boot-1",
		Level: new(slog.LevelVar), Log: slog.New(slog.DiscardHandler), Observer: observe.Observers{}, TraceKept: func(observe.Receipt) bool { return true },
		Exporters: func() (traces, metrics Exporter) {
			return Exporter{Exporter: "otlp", Endpoint: "http://collector:4317", LastOK: ago(time.Second), LastErr: "deadline exceeded", Dropped: 3}, Exporter{Exporter: "none"}
		}}
	for _, change := range changes {
		change(&o)
	}
	return New(o)
}

// ask sends a request as a client of class who, straight to the routes. headers
// are names and values in turn.
func ask(t *testing.T, s *Server, who class, method, target string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // what should not stream, and does, ends too
	defer cancel()
	return askWith(ctx, s, who, method, target, headers...)
}

// askWith is ask with a context, whose end is that of a stream.
func askWith(ctx context.Context, s *Server, who class, method, target string, headers ...string) *httptest.ResponseRecorder {
	router := chi.NewRouter()
	for _, each := range s.routes() {
		router.Method(each.method, each.path, s.only(each.who, each.serve))
	}
	r := httptest.NewRequest(method, target, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer := httptest.NewRecorder()
	router.ServeHTTP(answer, r.WithContext(withAsker(ctx, asker{class: who, why: "the test says so"})))
	return answer
}

// textOf is the text of a list as an operator's curl gets it, without its header.
func textOf(t *testing.T, s *Server, target string) string {
	t.Helper()
	answer := ask(t, s, operator, http.MethodGet, target)
	text, ok := strings.CutPrefix(answer.Body.String(), textHeader)
	if answer.Code != http.StatusOK || !ok {
		t.Fatalf("GET %s: %d %s", target, answer.Code, answer.Body)
	}
	return text
}

// A moment that the fixtures are around, a little before the tests run.
var fixtureNow = time.Now().Truncate(time.Second)

func ago(d time.Duration) time.Time { return fixtureNow.Add(-d) }

// fakeExec is an exec that came a minute ago, under a req_id.
func fakeExec(reqID uint64) observe.Exec {
	return observe.Exec{
		ID: observe.SandboxID(reqID), Seq: 100 + reqID, Session: 3,
		Command: "cd /src && make test SECRET=hunter2", CommandBytes: 35, CommandHash: strings.Repeat("0123456789abcdef", 4),
		Fingerprint: strings.Repeat("fedcba9876543210", 4), StdinBytes: 7, Timeout: 5 * time.Minute, Streaming: true,
		WorkspaceKey: "team-a", ReceivedAt: ago(time.Minute),
		Trace: observe.Trace{ID: strings.Repeat("4b", 16), SpanID: strings.Repeat("00f0", 4), Sampled: true},
	}
}

// busyWorker has one of everything there can be.
func busyWorker() *fakeWorker {
	running := observe.Inflight{
		Exec: fakeExec(1), State: observe.StateKilling, PID: 4242, DequeuedAt: ago(59 * time.Second), StartedAt: ago(58 * time.Second),
		FirstByte: 20 * time.Millisecond, LastOutputAt: ago(41 * time.Second), MainEndedAt: ago(2 * time.Second), KillBeganAt: ago(time.Second),
		StdoutBytes: 1 << 20, StderrBytes: 12, Chunks: 33, SendBlocked: 3 * time.Second, SendWaiting: true,
		Abort: &observe.AbortRequested{Exec: fakeExec(1), By: observe.EndedByAdmin, Reason: "too slow", At: ago(time.Second)},
	}
	queued := observe.Inflight{Exec: fakeExec(2), State: observe.StateQueued, QueuePosition: 1}
	left := observe.Process{PID: 815, PPID: 1, Name: "node", State: "S", WaitsIn: "ep_poll", StartedAt: ago(50 * time.Second)}
	return &fakeWorker{
		status: observe.Status{
			StartedAt: ago(time.Hour), SandboxID: "sbx-1", Arch: "amd64", Image: "img", Trust: "untrusted", Capabilities: []string{"bash", "git"},
			CapacityMax: 4, QueueCap: 64, Running: 1, Queued: 1, Attached: true, Session: 3, Containment: "base", Survivors: 1,
			Closed: true, ClosedReason: "maintenance", Totals: observe.Totals{Execs: 9, Timeouts: 1, Aborts: 2, Refused: 3, Replays: 4, Collisions: 5},
		},
		inflight: []observe.Inflight{running, queued},
		receipts: []observe.Receipt{fakeReceipt(left)},
		dedup: observe.Dedup{Capacity: 256, Hits: 4, Collisions: 5, Conflicts: 6, Evictions: 7, Entries: []observe.Completed{
			{ID: observe.SandboxID(3), Fingerprint: strings.Repeat("ab", 32), Outcome: observe.OutcomeExit, ExitCode: 7, Truncated: true, TraceID: strings.Repeat("4b", 16), StoredAt: ago(9 * time.Second), Hits: 2, LastHitAt: ago(time.Second)},
			{ID: observe.SandboxID(4), Fingerprint: strings.Repeat("cd", 32), Outcome: observe.OutcomeTimeout, ExitCode: -1, StoredAt: ago(8 * time.Second)},
		}},
		sessions: []observe.Session{
			{Number: 3, Target: "relay:8443", Attempt: 1, Backoff: time.Second, DialedAt: ago(100 * time.Second), ConnectedAt: ago(99 * time.Second), HelloAt: ago(98 * time.Second), LastRecvAt: ago(time.Second), HeartbeatAt: ago(5 * time.Second), TLS: true, FramesIn: 10, FramesOut: 20, BytesIn: 300, BytesOut: 400},
			{Number: 2, Target: "relay:8443", Attempt: 2, Backoff: 2 * time.Second, DialedAt: ago(200 * time.Second), EndedAt: ago(199 * time.Second), EndReason: "attach failed", Code: "Unavailable", Detail: "connection refused", ExecsLost: 2},
		},
		inspections: map[uint64]observe.Inspection{running.Exec.Seq: {
			At: fixtureNow, Window: 100 * time.Millisecond, More: 2, Unreadable: []string{"the wait channel of pid 815 cannot be read"},
			Processes: []observe.ProcessDetail{{
				Process: left, Main: true, Group: 815, Session: 815, Threads: 3, RSSBytes: 5 << 20, CPU: time.Second, InWindow: time.Millisecond,
				Command: "node server.js", Call: "read", FD: 0, File: "pipe:[812]", LockHolder: left,
			}},
			Pipes: []observe.PipeHolder{{Process: left, Command: "node server.js", Stream: "stdout", FD: 1, Writes: true, Member: true, Session: 815}},
		}},
		survivors: []observe.Survivors{{Exec: fakeExec(3), Since: ago(30 * time.Second), Processes: []observe.Process{left}, Tail: []byte("listening\nok\n"), TailCut: 17}},
	}
}

func fakeReceipt(left observe.Process) observe.Receipt {
	return observe.Receipt{
		Exec: fakeExec(3), Outcome: observe.OutcomeSignal, ExitCode: -1, Signal: "SIGKILL", EndedBy: observe.EndedByOOM, Reason: "no reason", Error: "not contained",
		Collided: true, PID: 812, StartedAt: ago(55 * time.Second), EndedAt: ago(30 * time.Second), UserCPU: 1200 * time.Millisecond, SystemCPU: 300 * time.Millisecond,
		MaxRSSBytes: 64 << 20, ReadBlocks: 8, WriteBlocks: 16, StdoutBytes: 5000, StderrBytes: 6, StdoutCut: 1000, StderrCut: 2, Chunks: 4,
		StdoutHash: strings.Repeat("1", 64), StderrHash: strings.Repeat("2", 64), PipeHeld: true,
		OOM:         &observe.OOM{Evidence: "oom_kill rose by 1 while it ran", Confidence: "high"},
		Phases:      observe.Phases{Queue: time.Second, Spawn: 2 * time.Millisecond, FirstByte: 30 * time.Millisecond, Run: 25 * time.Second, Drain: 4 * time.Millisecond, SendBlocked: 5 * time.Millisecond, Kill: 6 * time.Millisecond},
		Containment: observe.Containment{Level: "base", Rounds: 2, Reaped: 3, Left: []observe.Process{left}},
		Survivors:   []observe.Process{left}, SurvivorsCut: true,
	}
}

// askBody is ask with a body.
func askBody(t *testing.T, s *Server, who class, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	router := chi.NewRouter()
	for _, each := range s.routes() {
		router.Method(each.method, each.path, s.only(each.who, each.serve))
	}
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer := httptest.NewRecorder()
	router.ServeHTTP(answer, r.WithContext(withAsker(t.Context(), asker{class: who, why: "the test says so"})))
	return answer
}
