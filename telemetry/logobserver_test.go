package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"execworker/daemon/observe"
)

// lines is what an observer at the given level logs of events, one
// "LEVEL message" a line, with the attributes named in keys.
func lines(t *testing.T, level slog.Level, keys []string, events ...observe.Event) []string {
	t.Helper()
	var b bytes.Buffer
	o := NewLogObserver(slog.New(newHandler(&b, FormatJSON, false, level)))
	for _, e := range events {
		o.Event(t.Context(), e)
	}
	return parse(t, b.String(), keys...)
}

func parse(t *testing.T, out string, keys ...string) []string {
	t.Helper()
	var all []string
	for line := range strings.Lines(out) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		text := m["level"].(string) + " " + m["msg"].(string)
		for _, k := range keys {
			if v, ok := m[k]; ok {
				j, _ := json.Marshal(v)
				text += " " + k + "=" + strings.Trim(string(j), `"`)
			}
		}
		all = append(all, text)
	}
	return all
}

func wantLines(t *testing.T, got, want []string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

var anExec = observe.Exec{ID: observe.SandboxID(42), Session: 3, Command: "echo hi", Fingerprint: "f00d"}

func TestEventLines(t *testing.T) {
	tests := []struct {
		event observe.Event
		keys  string
		want  string
	}{
		{observe.Judged{Exec: anExec, Verdict: observe.VerdictRun, Queued: 1}, "req_id source queued command",
			"DEBUG exec admitted req_id=42 queued=1 command=echo hi"},
		{observe.Judged{Exec: anExec, Verdict: observe.VerdictJoin}, "req_id", "INFO exec joined req_id=42"},
		{observe.Judged{Exec: anExec, Verdict: observe.VerdictReplay}, "req_id", "INFO exec replayed req_id=42"},
		{observe.Judged{Exec: anExec, Verdict: observe.VerdictWait}, "req_id", "INFO exec waits for an earlier run req_id=42"},
		{observe.Judged{Exec: anExec, Verdict: observe.VerdictBusy, Reason: "queue full"}, "req_id reason verdict",
			"WARN exec refused req_id=42 reason=queue full verdict=busy"},
		{observe.Judged{Exec: anExec, Verdict: observe.VerdictConflict}, "req_id verdict",
			"WARN exec refused req_id=42 verdict=conflict"},
		{observe.Judged{Exec: anExec, Verdict: "new one"}, "verdict", "WARN exec judged verdict=new one"},
		{observe.Dequeued{Exec: anExec, Waited: 1500 * time.Microsecond}, "req_id queue_ms",
			"DEBUG exec dequeued req_id=42 queue_ms=1.5"},
		{observe.Spawned{Exec: anExec, PID: 7}, "req_id pid command", "INFO exec.started req_id=42 pid=7"},
		{observe.FirstOutput{Exec: anExec, Stream: "stderr"}, "stream", "DEBUG exec first output stream=stderr"},
		{observe.AbortRequested{Exec: anExec, By: observe.EndedByAdmin, Reason: "stuck\n"}, "req_id by reason",
			"INFO abort requested req_id=42 by=admin reason=stuck␊"},
		{observe.KillBegan{Exec: anExec, By: observe.EndedByTimeout}, "by", "DEBUG kill began by=timeout"},
		{observe.KillEnded{Exec: anExec}, "kill_ms", "DEBUG kill ended kill_ms=0"},
		{observe.KillEnded{Exec: anExec, Containment: observe.Containment{Level: "base", Rounds: 2,
			Left: []observe.Process{{PID: 8, Name: "d\x1b"}}}}, "containment rounds left",
			"ERROR kill ended containment=base rounds=2 left=8 d␛"},
		{observe.Ended{Receipt: observe.Receipt{Exec: anExec, Outcome: observe.OutcomeExit, ExitCode: 7,
			EndedBy: observe.EndedBySelf, StdoutBytes: 3, PID: 9, Phases: observe.Phases{Run: time.Second}}},
			"req_id source outcome exit_code ended_by signal pid stdout_bytes stderr_bytes run_ms kill_ms command",
			"INFO exec.finished req_id=42 outcome=exit exit_code=7 ended_by=self pid=9 stdout_bytes=3 run_ms=1000"},
		{observe.Ended{Receipt: observe.Receipt{Exec: anExec, Outcome: observe.OutcomeSpawnError, Error: "spawn: no bash"}},
			"error", "WARN exec.finished error=spawn: no bash"},
		{observe.Ended{Receipt: observe.Receipt{Exec: anExec, Outcome: observe.OutcomeUncontained}}, "", "ERROR exec.finished"},
		{observe.Ended{Receipt: observe.Receipt{Exec: observe.Exec{ID: observe.ID{Source: "terminal", ID: "t1"}}}},
			"req_id source", "INFO exec.finished req_id=t1 source=terminal"},
		{observe.SurvivorsFound{Exec: anExec, Kept: true, Processes: []observe.Process{{PID: 8, Name: "node"}, {PID: 9, Name: "sh"}}},
			"req_id kept processes", "INFO survivors found req_id=42 kept=true processes=8 node, 9 sh"},
		{observe.SurvivorsGone{Exec: anExec}, "req_id", "DEBUG survivors gone req_id=42"},
		{observe.Dialing{Session: observe.Session{Number: 2, Target: "r:1"}}, "session relay", "DEBUG dialing relay session=2 relay=r:1"},
		{observe.RogueKilled{Process: observe.Process{PID: 5, Name: "x"}}, "process", "WARN rogue process killed process=5 x"},
		{observe.WorkspaceSwept{Key: "k\n"}, "workspace_key", "INFO workspace swept workspace_key=k␊"},
		{observe.WorkspaceSwept{Key: "k", Error: "busy"}, "error", "WARN workspace not swept error=busy"},
		{observe.AdmissionClosed{Reason: "deploy\x1b[2J"}, "reason", "INFO admission closed reason=deploy␛[2J"},
		{observe.AdmissionOpened{}, "", "INFO admission opened"},
		{observe.AdminDenied{Exec: anExec.ID, Process: observe.Process{PID: 8, Name: "cu\x1brl"}, Method: "P\nT", Path: "/admin/\r\n", Times: 3},
			"req_id source pid process method path times",
			"WARN admin denied req_id=42 pid=8 process=cu␛rl method=P␊T path=/admin/␍␊ times=3"},
		{observe.AdminDenied{Process: observe.Process{PID: 8}, Times: 1}, "req_id pid times", "WARN admin denied pid=8 times=1"},
		{observe.Ended{Receipt: observe.Receipt{Exec: anExec, EndedBy: observe.EndedByOOM, StdoutHash: "aa", StderrHash: "bb",
			OOM: &observe.OOM{Evidence: "1 process was killed", Confidence: "high"}}},
			"ended_by oom oom_confidence stdout_sha256 stderr_sha256",
			"WARN exec.finished ended_by=oom oom=1 process was killed oom_confidence=high stdout_sha256=aa stderr_sha256=bb"},
		{observe.Ended{Receipt: observe.Receipt{Exec: anExec, EndedBy: observe.EndedBySelf}},
			"ended_by oom oom_confidence stdout_sha256 stderr_sha256", "INFO exec.finished ended_by=self"},
		{observe.DrainBegan{Running: 1, Queued: 2}, "running queued", "INFO drain began running=1 queued=2"},
		{observe.DrainEnded{Took: time.Second, Swept: 1}, "took_ms swept", "INFO drain ended took_ms=1000 swept=1"},
	}
	for _, tt := range tests {
		wantLines(t, lines(t, slog.LevelDebug, strings.Fields(tt.keys), tt.event), []string{tt.want})
	}
}

func TestCollisionIsWarnedOf(t *testing.T) {
	got := lines(t, slog.LevelInfo, []string{"req_id"},
		observe.Judged{Exec: anExec, Verdict: observe.VerdictRun, Collided: true})
	wantLines(t, got, []string{"WARN exec collided req_id=42"})
}

// No line above debug holds any of the command, and no line all of a long one.
func TestCommandTextIsForDebugOnly(t *testing.T) {
	x := anExec
	x.Command = "canary " + strings.Repeat("y", 100_000) + " tail"
	events := []observe.Event{
		observe.Judged{Exec: x, Verdict: observe.VerdictConflict}, observe.Spawned{Exec: x},
		observe.AbortRequested{Exec: x}, observe.Ended{Receipt: observe.Receipt{Exec: x}}, observe.SurvivorsFound{Exec: x},
	}
	for _, line := range lines(t, slog.LevelInfo, []string{"command"}, events...) {
		if strings.Contains(line, "canary") {
			t.Errorf("at info: %q", line)
		}
	}
	all := strings.Join(lines(t, slog.LevelDebug, []string{"command"}, events...), "\n")
	if !strings.Contains(all, "canary") || len(all) > 2000 {
		t.Errorf("at debug: %d bytes: %.200q", len(all), all)
	}
}

func TestPreview(t *testing.T) {
	const key = "-----BEGIN RSA PRIVATE KEY-----"
	tests := []struct{ in, want string }{
		{"echo hi\nls", "echo hi␊ls"},
		{strings.Repeat("日", 257), strings.Repeat("日", 256) + "…"},
		{"API_TOKEN=abc123 run --x", "API_TOKEN=[redacted] run --x"},
		{`curl -H "Authorization: Bearer abc.def" u`, `curl -H "Authorization: Bearer [redacted]" u`},
		{"mysql --password 'a b' db", "mysql --password [redacted] db"},
		{"mysql -uroot -phunter2 db", "mysql -uroot -p[redacted] db"},
		{"/usr/bin/mysqldump -p'hunter 2' db", "/usr/bin/mysqldump -p[redacted] db"},
		{`mariadb-dump -p"hunter\" 2"x; true`, "mariadb-dump -p[redacted]; true"},
		{`mysql "-phunter \" 2" db`, `mysql "-p[redacted]" db`},
		{`mysql '-phunter 2' db`, `mysql '-p[redacted]' db`},
		{`mysql -phunter\ 2 db`, "mysql -p[redacted] db"},
		{"mysql \\\n -phunter2", `mysql \␊ -p[redacted]`},
		{"mysql -pa && mysqladmin -pb -P3306", "mysql -p[redacted] && mysqladmin -p[redacted] -P3306"},
		{"mysql -e 'a; b' -p'hunter", "mysql -e 'a; b' -p[redacted]"},
		{"mysql -u root -p db --port=1", "mysql -u root -p db --port=1"},
		{"mkdir -pv a", "mkdir -pv a"},
		{"echo '" + key + "AAAA\nBB==\n-----END RSA PRIVATE KEY-----' > k", "echo '" + key + "[redacted]-----END RSA PRIVATE KEY-----' > k"},
		{`printf "` + key + `\nAAAA\nBB==\n-----END RSA PRIVATE KEY-----\n"`, `printf "` + key + `[redacted]-----END RSA PRIVATE KEY-----\n"`},
		{"cat <<E\n" + key + "\nAAAA\n\nBB", "cat <<E␊" + key + "[redacted]"},
		{"-----BEGIN PRIVATE KEY-----\nA\n-----END PRIVATE KEY-----\n-----BEGIN PUBLIC KEY-----\nB", "-----BEGIN PRIVATE KEY-----[redacted]-----END PRIVATE KEY-----␊-----BEGIN PUBLIC KEY-----␊B"},
		{"mysql --password=x db", "mysql --password=[redacted] db"},
		{"git clone https://me:pw@host/x", "git clone https://me:[redacted]@host/x"},
		{"echo ghp_abcdefghij", "echo [redacted]"},
		{`{"secret": "a b"}`, `{"secret": [redacted]}`},
		{"echo " + strings.Repeat("a1", 32), "echo [redacted]"},
		{"ls monkey keyboard", "ls monkey keyboard"},
		{"\xff\x1b", "\ufffd␛"},
	}
	for _, tt := range tests {
		if got := Preview(tt.in); got != tt.want {
			t.Errorf("Preview(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

// failing is an attempt that got nowhere; refused one that was let in and put out.
func failing(n int, reason string) observe.SessionEnded {
	return observe.SessionEnded{Next: time.Second,
		Session: observe.Session{Number: uint64(n), Attempt: n, EndReason: reason, Code: "Unavailable"}}
}

func refused(n int) observe.SessionEnded {
	e := failing(n, "refused")
	e.Session.HelloAt = time.Unix(1, 0)
	return e
}

func attach(n, attempt int) observe.Attached {
	return observe.Attached{Session: observe.Session{Number: uint64(n), Attempt: attempt}}
}

func TestRelayIsToldOfOncePerChange(t *testing.T) {
	got := lines(t, slog.LevelInfo, []string{"session", "attempts", "reason", "execs_lost"},
		failing(1, "dial"), failing(2, "dial"), failing(3, "tls"), failing(4, "tls"), failing(5, "dial"),
		attach(6, 6),
		observe.SessionEnded{Session: observe.Session{Number: 6, Attempt: 6, EndReason: "dial", Code: "Unavailable", ExecsLost: 2,
			HelloAt: time.Unix(1, 0)}, Next: 1},
		failing(7, "dial"),
		attach(8, 1),
		observe.SessionEnded{Session: observe.Session{Number: 8, Attempt: 1, EndReason: "drained"}},
	)
	wantLines(t, got, []string{
		"WARN session ended session=1 attempts=1 reason=dial",
		"WARN session ended session=3 attempts=3 reason=tls",
		"WARN session ended session=5 attempts=5 reason=dial",
		"INFO attached session=6 attempts=6",
		"WARN session ended session=6 attempts=6 reason=dial execs_lost=2",
		"INFO attached session=8 attempts=1",
		"INFO session ended session=8 attempts=1 reason=drained",
	})
}

func TestRefusedForEverIsToldOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		o := NewLogObserver(slog.New(newHandler(&b, FormatJSON, false, slog.LevelInfo)))
		for n := 1; n <= 5; n++ {
			o.Event(t.Context(), attach(n, n))
			time.Sleep(settle / 2)
			o.Event(t.Context(), refused(n))
			time.Sleep(2 * settle) // as long as the back-off may be
		}
		// What costs execs is never passed over.
		o.Event(t.Context(), attach(6, 6))
		lost := refused(6)
		lost.Session.ExecsLost = 1
		o.Event(t.Context(), lost)
		// Then the relay relents: nothing but time tells.
		ctx, cancel := context.WithCancel(t.Context())
		o.Event(ctx, attach(7, 7))
		cancel()
		time.Sleep(2 * settle)
		synctest.Wait()
		wantLines(t, parse(t, b.String(), "session", "reason"), []string{
			"INFO attached session=1",
			"WARN session ended session=1 reason=refused",
			"WARN session ended session=6 reason=refused",
			"INFO attached session=7",
		})
	})
}

func TestIgnoredFramesAreWarnedOfOncePerSession(t *testing.T) {
	got := lines(t, slog.LevelInfo, []string{"session"}, observe.FrameIgnored{Session: 1}, observe.FrameIgnored{Session: 1},
		observe.FrameIgnored{Session: 2})
	wantLines(t, got, []string{"WARN frame ignored session=1", "WARN frame ignored session=2"})
}
