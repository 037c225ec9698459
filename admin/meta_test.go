package admin

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestIndexListsEveryRouteWithALine(t *testing.T) {
	s := fullServer(busyWorker())
	var index indexView
	if err := json.Unmarshal(ask(t, s, unknown, http.MethodGet, "/?format=json").Body.Bytes(), &index); err != nil {
		t.Fatal(err)
	}
	text := textOf(t, s, "/")
	if len(index.Paths) != len(s.routes()) {
		t.Errorf("%d paths, %d routes", len(index.Paths), len(s.routes()))
	}
	for _, p := range index.Paths {
		if p.About == "" || !strings.Contains(text, p.About) {
			t.Errorf("nothing is said of %s %s", p.Method, p.Path)
		}
	}
	at := slices.IndexFunc(index.Paths, func(p pathView) bool { return p.Path == "/admin/v1/inflight" })
	if at < 0 || !slices.Equal(index.Paths[at].Params, []string{"state", "min_age", "sort", "limit"}) {
		t.Errorf("%+v", index.Paths)
	}
}

// Not even a mistake of whoever fills the list shows a secret.
func TestSecretsAreSetOrUnset(t *testing.T) {
	s := serverOf(&fakeWorker{}, func(o *Options) {
		o.Flags = []Flag{
			{Name: "SANDBOX_TOKEN", Value: "hunter2", Source: "environment", Secret: true},
			{Name: "ADMIN_TOKEN", Value: "unset", Source: "default", Secret: true},
			{Name: "RELAY_ADDR", Value: "relay:8443", Source: "flag"},
		}
	})
	text := textOf(t, s, "/flags")
	both := text + ask(t, s, operator, http.MethodGet, "/flags?format=json").Body.String()
	if strings.Contains(both, "hunter2") {
		t.Errorf("the secret is there:\n%s", both)
	}
	for _, want := range []string{"SANDBOX_TOKEN (secret, set) environment", "ADMIN_TOKEN (secret, unset) default", "RELAY_ADDR relay:8443 flag"} {
		if name, _, _ := strings.Cut(want, " "); lineWith(t, text, name) != want {
			t.Errorf("%q, want %q", lineWith(t, text, name), want)
		}
	}
}

func TestMetricsAreThereIfThereAreAny(t *testing.T) {
	if code := ask(t, serverOf(&fakeWorker{}), unknown, http.MethodGet, "/metrics").Code; code != http.StatusNotFound {
		t.Errorf("without metrics: %d", code)
	}
	s := serverOf(&fakeWorker{}, func(o *Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	})
	if code := ask(t, s, unknown, http.MethodGet, "/metrics").Code; code != http.StatusTeapot {
		t.Errorf("with metrics: %d", code)
	}
}

func TestWhoAsksGetsTheFormat(t *testing.T) {
	s := serverOf(busyWorker())
	for _, c := range []struct{ query, accept, want string }{
		{"", "", "text/plain; charset=utf-8"},
		{"", "*/*", "text/plain; charset=utf-8"},
		{"", "application/json", "application/json"},
		{"", "text/html, application/json;q=0.9", "application/json"},
		{"?format=json", "text/plain", "application/json"},
		{"?format=text", "application/json", "text/plain; charset=utf-8"},
	} {
		answer := ask(t, s, operator, http.MethodGet, "/status"+c.query, "Accept", c.accept)
		if got := answer.Header().Get("Content-Type"); got != c.want {
			t.Errorf("%s with Accept %s is %s, want %s", c.query, c.accept, got, c.want)
		}
	}
}
