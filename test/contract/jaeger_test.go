package contract

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"execworker/test/relaytest"
)

// TestRealJaeger is for a machine that has a Jaeger (make jaeger builds one):
//
//	JAEGER_BIN=./jaeger go test ./test/contract -run TestRealJaeger -v
//
// A queued, chatty, killed exec goes through OTLP into Jaeger, and its own query
// API gives the whole trace back.
func TestRealJaeger(t *testing.T) {
	binary := os.Getenv("JAEGER_BIN")
	if binary == "" {
		t.Skip("JAEGER_BIN names no Jaeger")
	}
	otlp, query := startJaeger(t, binary)
	_, s, w := attach(t, traced("http://"+otlp, "WORKER_MAX_CONCURRENT", "1"))
	s.Exec(t, 1, "sleep 1")
	s.Exec(t, 2, "for i in {1..5000}; do echo $i; done; sleep 300", streaming, relaytest.Timeout(2))
	s.WantEnd(t, 1, 0)
	s.WantError(t, 2, "timeout:2")
	var got struct {
		Data []struct {
			Spans []struct {
				OperationName string
				Duration      int64 // µs
			}
		}
	}
	var cache struct {
		Entries []struct {
			ReqID   string `json:"req_id"`
			TraceID string `json:"trace_id"`
		}
	}
	overSocket(w).get(t, "/admin/cache?format=json", &cache)
	i := slices.IndexFunc(cache.Entries, func(e struct {
		ReqID   string `json:"req_id"`
		TraceID string `json:"trace_id"`
	}) bool {
		return e.ReqID == "2"
	})
	if i < 0 {
		t.Fatalf("the timeout is not remembered: %+v", cache)
	}
	url := "http://" + query + "/api/traces/" + cache.Entries[i].TraceID
	want := []string{"bash", "exec", "exec.dispatch", "exec.kill", "exec.spawn", "exec.stream"}
	var names []string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		answer, err := http.Get(url)
		if err != nil {
			continue
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		names = nil
		if json.Unmarshal(text, &got) == nil && len(got.Data) == 1 {
			for _, span := range got.Data[0].Spans {
				names = append(names, span.OperationName)
				t.Logf("%-14s %8.1f ms", span.OperationName, float64(span.Duration)/1000)
			}
		}
		if slices.Sort(names); slices.Equal(names, want) {
			return
		}
	}
	t.Errorf("Jaeger has the spans %q, want %q", names, want)
}

// startJaeger starts one that keeps traces in memory, on free ports.
func startJaeger(t *testing.T, binary string) (otlp, query string) {
	t.Helper()
	var addrs [4]string
	for i := range addrs {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addrs[i] = l.Addr().String()
		l.Close()
	}
	config := filepath.Join(t.TempDir(), "jaeger.yaml")
	text := fmt.Sprintf(`
service:
  extensions: [jaeger_storage, jaeger_query, healthcheckv2]
  pipelines:
    traces: {receivers: [otlp], exporters: [jaeger_storage_exporter]}
  telemetry: {metrics: {level: none}, logs: {level: warn}}
extensions:
  healthcheckv2: {use_v2: true, http: {endpoint: "%s"}}
  jaeger_storage: {backends: {mem: {memory: {max_traces: 1000}}}}
  jaeger_query:
    storage: {traces: mem}
    http: {endpoint: "%s"}
    grpc: {endpoint: "%s"}
receivers:
  otlp: {protocols: {grpc: {endpoint: "%s"}}}
exporters:
  jaeger_storage_exporter: {trace_storage: mem}
`, addrs[3], addrs[1], addrs[2], addrs[0])
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "--config", config)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() // after SIGTERM it takes its time
		cmd.Wait()
	})
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if answer, err := http.Get("http://" + addrs[1] + "/api/services"); err == nil {
			answer.Body.Close()
			return addrs[0], addrs[1]
		}
	}
	t.Fatal("Jaeger does not answer")
	return "", ""
}
