package contract

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"execworker/test/relaytest"
)

// api asks the admin API of a worker, over its socket.
type api struct {
	http *http.Client
	base string
}

func overSocket(w *relaytest.Worker) api {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", w.AdminSocket())
	}
	return api{http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}, base: "http://localhost"}
}

// overTCP finds the port that the worker got.
func overTCP(t *testing.T, w *relaytest.Worker) api {
	t.Helper()
	var status struct {
		Admin struct{ Addrs []string }
	}
	overSocket(w).get(t, "/admin/status?format=json", &status)
	if len(status.Admin.Addrs) == 0 {
		t.Fatal("the worker serves no TCP address")
	}
	return api{http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, base: "http://" + status.Admin.Addrs[0]}
}

// answered is an answer, read to its end.
type answered struct {
	code   int
	header http.Header
	body   string
}

// ask sends one request. headers are names and values in turn; Host is one too.
func (a api) ask(t *testing.T, method, path, body string, headers ...string) answered {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, a.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	resp, err := a.http.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return answered{resp.StatusCode, resp.Header, string(text)}
}

// get reads JSON into v.
func (a api) get(t *testing.T, path string, v any) {
	t.Helper()
	got := a.ask(t, http.MethodGet, path, "")
	if got.code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, got.code, got.body)
	}
	if err := json.Unmarshal([]byte(got.body), v); err != nil {
		t.Fatalf("GET %s: %v in %s", path, err, got.body)
	}
}

// inflight is what the tests look at of a list.
type inflight struct {
	Execs []struct {
		ReqID string `json:"req_id"`
		State string
		Etag  string
		Why   struct{ Kind, Sentence string }
	}
}

// waitWhy waits until the exec is stuck for the reason that is meant.
func (a api) waitWhy(t *testing.T, id, kind string) (sentence string) {
	t.Helper()
	var last string
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var list inflight
		a.get(t, "/admin/inflight?format=json", &list)
		for _, x := range list.Execs {
			if x.ReqID == id {
				if last = x.Why.Kind + ": " + x.Why.Sentence; x.Why.Kind == kind {
					return x.Why.Sentence
				}
			}
		}
	}
	t.Fatalf("exec %s is not stuck as %s; the last word was %q", id, kind, last)
	return ""
}

// stream follows a path; the answer waits for its end and returns all of it.
func (a api) stream(t *testing.T, path string) (text func() string) {
	t.Helper()
	resp, err := a.http.Get(a.base + path)
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan string, 1)
	go func() {
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		all <- string(text)
	}()
	return func() string {
		select {
		case text := <-all:
			return text
		case <-time.After(20 * time.Second):
			t.Error("the stream does not end")
			return ""
		}
	}
}

// hexPort is a port as /proc/net/tcp writes it.
func hexPort(port string) string {
	n, _ := strconv.Atoi(port)
	return fmt.Sprintf("%04X", n)
}
