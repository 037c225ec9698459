package contract

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"execworker/test/relaytest"
)

func TestCaseO10NoTokenInTheEnvironment(t *testing.T) {
	_, s, w := attach(t, relaytest.Env{
		"ADMIN_TOKEN": "canary456-canary456", "RELAY_EXEC_TOKEN": "canary789", "OTEL_EXPORTER_OTLP_HEADERS": "canary012",
		"LOG_LEVEL": "debug", "KEPT": "kept",
	})
	s.Exec(t, 15, "env")
	env := string(s.WantEnd(t, 15, 0).Stdout)
	for _, secret := range []string{"relaytest-token", "canary", "SANDBOX_", "ADMIN_", "OTEL_", "RELAY_", "LOG_LEVEL", "EXECWORKER_", "WORKER_MAX", "WORKSPACE_"} {
		if strings.Contains(env, secret) {
			t.Errorf("the environment has %q:\n%s", secret, env)
		}
	}
	if !strings.Contains(env, "KEPT=kept\n") {
		t.Error("the rest of the environment is missing")
	}
	if strings.Contains(w.Stderr(), "canary") {
		t.Error("a secret is in the log")
	}
	alive(t, s)
}

func TestCaseO11OOMScoreIsNotPassedOn(t *testing.T) {
	_, s, _ := attach(t, nil, relaytest.WithSetup("echo -500 >/proc/self/oom_score_adj"))
	s.Exec(t, 16, "cat /proc/self/oom_score_adj; bash -c 'cat /proc/self/oom_score_adj'")
	for _, line := range strings.Fields(string(s.WantEnd(t, 16, 0).Stdout)) {
		if n, err := strconv.Atoi(line); err != nil || n < 0 {
			t.Errorf("oom_score_adj is %q", line)
		}
	}
	alive(t, s)
}

func TestCaseO12SignalStateAndOpenFileLimit(t *testing.T) {
	_, s, _ := attach(t, nil, relaytest.WithSetup("ulimit -Sn 1024"))
	s.Exec(t, 17, "yes | head -n1; echo ${PIPESTATUS[0]}")
	s.Exec(t, 18, "grep -E '^Sig(Blk|Ign)' /proc/self/status")
	s.Exec(t, 19, "ulimit -Sn")
	s.WantEnd(t, 17, 0)
	s.WantOutput(t, 17, "y\n141\n", "")
	s.WantEnd(t, 18, 0)
	lines := strings.Split(string(s.Result(t, 18).Stdout), "\n")
	if lines[0] != "SigBlk:\t0000000000000000" {
		t.Errorf("blocked: %q", lines[0])
	}
	if more := ignored(t, lines[1]) &^ ignoredHere(t); more != 0 {
		t.Errorf("the command ignores signals that the worker's parent does not: %x", more)
	}
	s.WantEnd(t, 19, 0)
	s.WantOutput(t, 19, "1024\n", "")
	alive(t, s)
}

func TestDescriptorsOfTheWorkerAreNoCommands(t *testing.T) {
	_, s, _ := attach(t, nil, relaytest.WithSetup("exec 9</etc/passwd"))
	s.Exec(t, 1, "cat <&9; ls -l /proc/self/fd")
	got := s.WantEnd(t, 1, 0)
	if strings.Contains(string(got.Stdout), "passwd") || !strings.Contains(string(got.Stderr), "9: Bad file descriptor") {
		t.Errorf("stdout %q, stderr %q", got.Stdout, got.Stderr)
	}
	alive(t, s)
}

// ignoredHere is what the test ignores, which is the worker's parent.
func ignoredHere(t *testing.T) uint64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "SigIgn:") {
			return ignored(t, strings.TrimSpace(line))
		}
	}
	t.Fatal("no SigIgn in /proc/self/status")
	return 0
}

// ignored reads a SigIgn line of /proc/<pid>/status.
func ignored(t *testing.T, line string) uint64 {
	t.Helper()
	set, err := strconv.ParseUint(strings.TrimPrefix(line, "SigIgn:\t"), 16, 64)
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return set
}
