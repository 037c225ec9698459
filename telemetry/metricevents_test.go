package telemetry

import (
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"execworker/daemon/observe"
)

func TestWhatEventsCount(t *testing.T) {
	now := time.Now()
	x := observe.Exec{Seq: 1, ReceivedAt: now}
	ended := func(r observe.Receipt) observe.Event {
		r.Exec, r.EndedAt = x, now.Add(2*time.Second)
		return observe.Ended{Receipt: r}
	}
	hello := observe.Session{HelloAt: now, EndedAt: now.Add(time.Second)}
	begun := observe.Dequeued{Exec: x}
	tests := []struct {
		name   string
		events []observe.Event
		want   []string
	}{
		{"an exec that runs was not in dedup", []observe.Event{observe.Judged{Verdict: observe.VerdictRun}},
			[]string{`sandbox_dedup_lookups_total{result="miss"} 1`}},
		{"one that waits is looked up when it is judged again", []observe.Event{observe.Judged{Verdict: observe.VerdictWait}},
			[]string{`sandbox_dedup_lookups_total{result="miss"} 0`}},
		{"a collision runs", []observe.Event{observe.Judged{Verdict: observe.VerdictRun, Collided: true}},
			[]string{`sandbox_dedup_lookups_total{result="collision_rerun"} 1`, `sandbox_dedup_lookups_total{result="miss"} 0`}},
		{"a replay is a hit", []observe.Event{observe.Judged{Verdict: observe.VerdictReplay}},
			[]string{`sandbox_dedup_lookups_total{result="hit"} 1`}},
		{"a join is neither looked up nor refused", []observe.Event{observe.Judged{Verdict: observe.VerdictJoin}},
			[]string{`sandbox_dedup_lookups_total{result="hit"} 0`, `sandbox_exec_refused_total{reason="other"} 0`}},
		{"a conflict is a lookup and a refusal", []observe.Event{observe.Judged{Verdict: observe.VerdictConflict}},
			[]string{`sandbox_dedup_lookups_total{result="collision_refused"} 1`, `sandbox_exec_refused_total{reason="collision"} 1`}},
		{"no room", []observe.Event{observe.Judged{Verdict: observe.VerdictBusy, Reason: "busy: queue full"}},
			[]string{`sandbox_exec_refused_total{reason="queue_full"} 1`, `sandbox_dedup_lookups_total{result="miss"} 0`}},
		{"no room for so many bytes", []observe.Event{observe.Judged{Verdict: observe.VerdictBusy, Reason: "busy: queue bytes"}},
			[]string{`sandbox_exec_refused_total{reason="queue_bytes"} 1`}},
		{"draining", []observe.Event{observe.Judged{Verdict: observe.VerdictBusy, Reason: "busy: draining"}},
			[]string{`sandbox_exec_refused_total{reason="draining"} 1`}},
		{"busy for a new reason", []observe.Event{observe.Judged{Verdict: observe.VerdictBusy, Reason: "busy: new"}},
			[]string{`sandbox_exec_refused_total{reason="other"} 1`}},
		{"a frame that cannot be run", []observe.Event{observe.Judged{Verdict: observe.VerdictRefused, Reason: "exec: bad UTF-8"}},
			[]string{`sandbox_exec_refused_total{reason="invalid"} 1`}},
		{"behind a run that is not contained", []observe.Event{observe.Judged{Verdict: observe.VerdictRefused, Reason: "containment: 2 processes"}},
			[]string{`sandbox_exec_refused_total{reason="uncontained"} 1`}},

		{"an abort in the queue", []observe.Event{
			observe.AbortRequested{Exec: x, By: observe.EndedByCaller},
			ended(observe.Receipt{Outcome: observe.OutcomeAbort, Phases: observe.Phases{Queue: time.Second}}),
		}, []string{
			`sandbox_abort_requests_total{result="dequeued",source="relay"} 1`,
			`sandbox_exec_queue_duration_seconds_sum{outcome="aborted"} 1`,
			`sandbox_exec_duration_seconds_sum{outcome="abort",streaming="false"} 2`,
		}},
		{"an operator's abort of what runs", []observe.Event{
			begun, observe.AbortRequested{Exec: x, By: observe.EndedByAdmin},
			observe.KillBegan{Exec: x, By: observe.EndedByAdmin}, observe.KillEnded{Exec: x, Took: time.Second},
			ended(observe.Receipt{Outcome: observe.OutcomeAbort}),
		}, []string{
			`sandbox_abort_requests_total{result="killed",source="admin"} 1`,
			`sandbox_exec_kill_duration_seconds_sum{reason="admin"} 1`,
			`sandbox_exec_queue_duration_seconds_count{outcome="started"} 1`,
		}},
		{"an abort of nothing", []observe.Event{observe.FrameIgnored{Reason: abortOfNothing}, observe.FrameIgnored{Reason: "else"}},
			[]string{`sandbox_abort_requests_total{result="unknown",source="relay"} 1`}},
		{"a kill that main forestalls keeps its reason", []observe.Event{
			begun, observe.KillBegan{Exec: x, By: observe.EndedByTimeout}, observe.KillEnded{Exec: x, Took: time.Second},
			ended(observe.Receipt{Outcome: observe.OutcomeExit, EndedBy: observe.EndedBySelf}),
		}, []string{`sandbox_exec_kill_duration_seconds_sum{reason="timeout"} 1`}},
		{"out of the queue at a drain", []observe.Event{ended(observe.Receipt{Outcome: observe.OutcomeRefused, Error: "busy: draining"})},
			[]string{
				`sandbox_exec_refused_total{reason="draining"} 1`,
				`sandbox_exec_queue_duration_seconds_count{outcome="aborted"} 1`,
			}},
		{"only what was spawned has output", []observe.Event{
			ended(observe.Receipt{Outcome: observe.OutcomeLost}), ended(observe.Receipt{Outcome: observe.OutcomeExit, PID: 7}),
		}, []string{`sandbox_exec_output_size_bytes_count 1`}},

		{"no bash", []observe.Event{begun, ended(observe.Receipt{
			Outcome: observe.OutcomeSpawnError, Error: "spawn: fork/exec /bin/bash: " + syscall.ENOENT.Error(),
			Phases: observe.Phases{Queue: 500 * time.Millisecond},
		})}, []string{
			`sandbox_exec_spawn_duration_seconds_sum{error_type="ENOENT"} 1.5`,
			`sandbox_exec_duration_seconds_count{error_type="ENOENT",outcome="spawn_error",streaming="false"} 1`,
		}},
		{"an error that is no errno", []observe.Event{begun, ended(observe.Receipt{Outcome: observe.OutcomeSpawnError, Error: "odd"})},
			[]string{
				`sandbox_exec_spawn_duration_seconds_count{error_type="_OTHER"} 1`,
				`sandbox_exec_duration_seconds_count{error_type="_OTHER",outcome="spawn_error",streaming="false"} 1`,
			}},
		{"a signal from outside", []observe.Event{begun, ended(observe.Receipt{Outcome: observe.OutcomeSignal, Signal: "SIGSEGV"})},
			[]string{`sandbox_exec_duration_seconds_count{error_type="SIGSEGV",outcome="signal",streaming="false"} 1`}},
		{"a signal without a name", []observe.Event{begun, ended(observe.Receipt{Outcome: observe.OutcomeSignal})},
			[]string{`sandbox_exec_duration_seconds_count{error_type="_OTHER",outcome="signal",streaming="false"} 1`}},
		{"no memory", []observe.Event{begun, ended(observe.Receipt{
			Outcome: observe.OutcomeSignal, Signal: "SIGKILL", EndedBy: observe.EndedByOOM,
		})}, []string{`sandbox_exec_duration_seconds_count{error_type="oom",outcome="signal",streaming="false"} 1`}},
		{"a new outcome", []observe.Event{begun, ended(observe.Receipt{Outcome: "new"})},
			[]string{`sandbox_exec_duration_seconds_count{outcome="other",streaming="false"} 1`}},

		{"a dial that fails", []observe.Event{observe.Dialing{}, observe.SessionEnded{
			Session: observe.Session{EndReason: "attach failed", Code: "Unavailable"}, Next: 3 * time.Second,
		}}, []string{
			`sandbox_attach_attempts_total{error_type="Unavailable",result="failed"} 1`,
			`sandbox_attach_attempts_total{result="attached"} 0`,
			`sandbox_attach_backoff_seconds 3`,
		}},
		{"a dial that fails without a code", []observe.Event{observe.SessionEnded{Session: observe.Session{EndReason: "attach failed"}}},
			[]string{`sandbox_attach_attempts_total{error_type="_OTHER",result="failed"} 1`}},
		{"a dial that a shutdown ends", []observe.Event{observe.SessionEnded{Session: observe.Session{EndReason: "shutdown", Code: "Canceled"}}},
			[]string{`sandbox_attach_attempts_total{error_type="shutdown",result="failed"} 1`}},
		{"the next dial ends the back-off", []observe.Event{observe.SessionEnded{Session: hello, Next: time.Second}, observe.Dialing{}},
			[]string{`sandbox_attach_backoff_seconds 0`}},
		{"a session that ends is no attempt", []observe.Event{observe.Attached{}, observe.SessionEnded{Session: hello}},
			[]string{
				`sandbox_attach_attempts_total{result="attached"} 1`,
				`sandbox_attach_attempts_total{error_type="_OTHER",result="failed"} 0`,
				`sandbox_attach_session_duration_seconds_sum{end_reason="other"} 1`,
			}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newMetrics(t)
			tell(m, test.events)
			wantMetrics(t, m, test.want...)
		})
	}
}

func TestAMethodThatIsMadeUp(t *testing.T) {
	m := newMetrics(t)
	m.Request(t.Context(), "", "BREW", 405, time.Second)
	wantMetrics(t, m, `http_server_request_duration_seconds_sum{http_request_method="_OTHER",http_response_status_code="405",http_route=""} 1`)
}

func TestHeartbeatAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hello, ended := time.Now().Add(-time.Hour), time.Now()
		for name, test := range map[string]struct {
			sessions []observe.Session
			want     string
		}{
			"attached":         {[]observe.Session{{HelloAt: hello, HeartbeatAt: ended.Add(-time.Minute)}}, " 60"},
			"before the first": {[]observe.Session{{HelloAt: hello}}, " 3600"},
			"dialing":          {[]observe.Session{{}}, ""},
			"between sessions": {[]observe.Session{{HelloAt: hello, EndedAt: ended}}, ""},
			"at the start":     {nil, ""},
		} {
			m := newMetrics(t)
			m.Ask(&aWorker{sessions: test.sessions})
			_, after, _ := strings.Cut(scrape(t, m, ""), "\nsandbox_heartbeat_age_seconds")
			if got, _, _ := strings.Cut(after, "\n"); got != test.want {
				t.Errorf("%s: got %q, want %q", name, got, test.want)
			}
		}
	})
}
