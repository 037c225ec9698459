package contract

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"execworker/test/relaytest"

	"golang.org/x/sys/unix"
)

// limitedCgroup makes a cgroup below our own with a limit of memory, and returns
// its directory.
func limitedCgroup(t *testing.T) string {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(own)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		base, limit := "/sys/fs/cgroup", "memory.max" // v2
		if f[1] != "" {
			base, limit = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		if f[1] != "" && f[1] != "memory" {
			continue
		}
		dir := filepath.Join(base, f[2], fmt.Sprintf("contract-test-%d", os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			continue
		}
		t.Cleanup(func() { unix.Rmdir(dir) })
		if err := os.WriteFile(filepath.Join(dir, limit), fmt.Append(nil, 300<<20), 0); err == nil {
			return dir
		}
	}
	t.Skip("no cgroup with a memory limit can be made here")
	return ""
}

// endedLine is the log line of an exec's end.
func endedLine(t *testing.T, w *relaytest.Worker, reqID string) (line map[string]any) {
	t.Helper()
	w.WaitLog(t, `"msg":"exec.finished","req_id":"`+reqID+`"`)
	for text := range strings.Lines(w.Stderr()) {
		if json.Unmarshal([]byte(text), &line) == nil && line["msg"] == "exec.finished" && line["req_id"] == reqID {
			return line
		}
		line = nil
	}
	t.Fatalf("no line:\n%s", w.Stderr())
	return nil
}

func TestTheOOMKillerIsNamed(t *testing.T) {
	dir := limitedCgroup(t)
	_, s, w := attach(t, nil, relaytest.WithSetup("echo $$ > "+dir+"/cgroup.procs || exit"))
	for id, test := range []struct {
		command          string
		code             int32
		by, sure         any
		evidenceContains string
	}{
		{"exec tail /dev/zero", -1, "oom", "high", "main died of a SIGKILL"},
		{"tail /dev/zero; exit 5", 5, "self", "low", "may have been another exec's"},
		{"tail /dev/zero; kill -TERM $$", -1, "unknown", "low", "may have been another exec's"},
		{"kill -9 $$", -1, "unknown", nil, ""},
		{"exit 6", 6, "self", nil, ""},
	} {
		s.Exec(t, uint64(id), test.command)
		s.WantEnd(t, uint64(id), test.code)
		line := endedLine(t, w, fmt.Sprint(id))
		evidence, _ := line["oom"].(string)
		if line["ended_by"] != test.by || line["oom_confidence"] != test.sure || !strings.Contains(evidence, test.evidenceContains) {
			t.Errorf("%s: %v", test.command, line)
		}
	}
}
