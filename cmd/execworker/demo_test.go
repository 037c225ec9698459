package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// startDemo gives the demo a folder for its folder, to see that it is removed.
func startDemo(t *testing.T, variables []string, args ...string) (*started, string) {
	t.Helper()
	dir := t.TempDir()
	return start(t, append(variables, "TMPDIR="+dir), nil, append([]string{"demo"}, args...)...), dir
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("left in %s: %v, %v", dir, entries, err)
	}
}

func TestDemoOnce(t *testing.T) {
	s, dir := startDemo(t, nil, "--once")
	s.wantCode(t, exitOK)
	out := s.stdout.String()
	_, table, ok := strings.Cut(out, "\nSTEP")
	if !ok {
		t.Fatalf("no table in:\n%s", out)
	}
	for _, step := range tourSteps {
		if !strings.Contains(table, "\n"+step.name+" ") {
			t.Errorf("no row for %s in:\n%s", step.name, table)
		}
	}
	if n := strings.Count(table, " ok "); n != len(tourSteps) {
		t.Errorf("%d rows are ok:\n%s", n, table)
	}
	wantEmpty(t, dir)
}

// What cannot be done must be seen to fail, each step for its own reason.
func TestDemoIsHonest(t *testing.T) {
	tests := []struct {
		hidden string
		wrong  []string
		reason string
	}{
		{"bash", []string{"read", "write", "bash", "grep", "abort", "timeout", "reconnect", "escape"}, "bash"},
		{"grep", []string{"grep"}, "grep: command not found"},
		{"setsid", []string{"escape"}, "setsid: command not found"},
	}
	for _, tt := range tests {
		t.Run(tt.hidden, func(t *testing.T) {
			path := t.TempDir()
			for _, name := range []string{"bash", "base64", "grep", "sleep", "setsid"} {
				real, err := exec.LookPath(name)
				if err != nil {
					t.Fatal(err)
				}
				if name == tt.hidden {
					continue
				}
				if err := os.Symlink(real, filepath.Join(path, name)); err != nil {
					t.Fatal(err)
				}
			}
			s, dir := startDemo(t, []string{"PATH=" + path}, "--once")
			s.wantCode(t, exitFailed)
			if want := "not right: " + strings.Join(tt.wrong, ", ") + "\n"; !strings.Contains(s.stderr.String(), want) {
				t.Errorf("stderr %q, want %q", s.stderr, want)
			}
			if !strings.Contains(s.stdout.String(), tt.reason) {
				t.Errorf("no %q in:\n%s", tt.reason, s.stdout)
			}
			wantEmpty(t, dir)
		})
	}
}

func TestDemoStaysUp(t *testing.T) {
	s, dir := startDemo(t, nil)
	s.stdout.wait(t, "stay up until")
	variables := map[string]string{}
	for line := range strings.Lines(s.stdout.String()) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "export "); ok {
			for _, v := range strings.Fields(rest) {
				name, value, _ := strings.Cut(v, "=")
				variables[name] = value
			}
		}
	}
	var env []string
	for name, value := range variables {
		env = append(env, name+"="+value)
	}
	x := start(t, env, nil, "exec", "--", "echo hi")
	x.wantCode(t, 0)
	wantOutput(t, "stdout", x.stdout, "hi\n")
	s.signal(t, syscall.SIGINT)
	s.wantCode(t, exitOK)
	wantEmpty(t, dir)
}

// The tour is in the middle of its second of waiting for a timeout.
func TestDemoCanBeInterrupted(t *testing.T) {
	s, dir := startDemo(t, nil, "--once")
	s.stdout.wait(t, "6. timeout")
	s.signal(t, syscall.SIGINT)
	s.wantCode(t, exitSignal)
	wantEmpty(t, dir)
}
