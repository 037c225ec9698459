package admin

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// ownWords are strings of snapshots that the worker chooses itself, so that what
// is in them is no other's text.
var ownWords = []string{
	"Arch", "Call", "Code", "CommandHash", "Confidence", "Containment", "EndReason", "Evidence", "Fingerprint", "ID", "Level", "Signal",
	"Source", "State", "StderrHash", "StdoutHash", "Stream", "Unreadable", "WaitsIn",
}

// foreign sets every string in v that comes from outside to what text says for
// the name of its field.
func foreign(v reflect.Value, name string, text func(name string) string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			foreign(v.Elem(), name, text)
		}
	case reflect.Struct:
		if v.Type().PkgPath() == "time" {
			return
		}
		for i := range v.NumField() {
			foreign(v.Field(i), v.Type().Field(i).Name, text)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(text(name)))
			return
		}
		for i := range v.Len() {
			foreign(v.Index(i), name, text)
		}
	case reflect.String:
		if v.Type() == reflect.TypeFor[string]() && !slices.Contains(ownWords, name) {
			v.SetString(text(name))
		}
	}
}

// foreignWorker is a busy one that is full of others' text.
func foreignWorker(text func(name string) string) *fakeWorker {
	w := busyWorker()
	for _, part := range []any{&w.status, &w.inflight, &w.receipts, &w.dedup, &w.sessions, &w.survivors} {
		v := reflect.ValueOf(part).Elem()
		foreign(v, v.Type().Name(), text)
	}
	for seq, in := range w.inspections {
		foreign(reflect.ValueOf(&in).Elem(), "", text)
		w.inspections[seq] = in
	}
	return w
}

// lists are the routes that show what the worker has.
var lists = []string{
	"/", "/status", "/inflight", "/inflight/1", "/inflight/2", "/execs", "/execs/3", "/cache", "/connections", "/survivors", "/survivors/3",
	"/livez?verbose", "/readyz?verbose", "/flags",
}

// Whatever the text, a terminal gets printable ASCII and lines only.
func TestNothingForeignDrivesATerminal(t *testing.T) {
	w := foreignWorker(func(string) string { return "\x1b[2J\x1b]0;owned\a\u009b2J\u202e\u200b\r\nREQ_ID\tforged\x7f\xff" })
	s := serverOf(w, func(o *Options) {
		o.Preview = func(s string) string { return s } // as if it let everything through
		o.Flags = []Flag{{Name: "X", Value: "\x1b[2J\u202e\n", Source: "environment"}}
	})
	for _, target := range lists {
		for _, accept := range []string{"*/*", "application/json"} {
			for _, who := range []class{operator, unknown} {
				body := ask(t, s, who, http.MethodGet, target, "Accept", accept).Body.String()
				if i := strings.IndexFunc(body, func(r rune) bool { return r != '\n' && (r < ' ' || r > '~') }); i >= 0 {
					t.Errorf("GET %s as %s for %s lets %q through", target, accept, who, body[i:min(len(body), i+20)])
				}
				if accept == "*/*" && strings.Contains(body, "\nREQ_ID\tforged") || strings.Contains(body, "\nREQ_ID  forged") {
					t.Errorf("GET %s for %s has a line that is not its own", target, who)
				}
			}
		}
	}
}

// What others than operators see of the texts of commands and of people.
func TestStrangersSeeNoCommands(t *testing.T) {
	s := serverOf(foreignWorker(func(name string) string { return "foreign " + name + " text" }), func(o *Options) {
		o.Preview = func(s string) string { return s }
	})
	seen := map[string]bool{}
	all := map[string]bool{}
	for _, target := range lists {
		for _, accept := range []string{"*/*", "application/json"} {
			for _, part := range strings.Split(ask(t, s, unknown, http.MethodGet, target, "Accept", accept).Body.String(), "foreign ")[1:] {
				name, _, _ := strings.Cut(part, " ")
				seen[name] = true
			}
			for _, part := range strings.Split(ask(t, s, operator, http.MethodGet, target, "Accept", accept).Body.String(), "foreign ")[1:] {
				name, _, _ := strings.Cut(part, " ")
				all[name] = true
			}
		}
	}
	if got, want := slices.Sorted(maps.Keys(seen)), []string{"Capabilities", "Detail", "Image", "Name", "SandboxID", "SpanID", "Target", "TraceID", "Trust"}; !slices.Equal(got, want) {
		t.Errorf("strangers see %q, want %q", got, want)
	}
	for _, name := range []string{"Command", "WorkspaceKey", "Reason", "ClosedReason", "Error", "Tail", "File"} {
		if !all[name] {
			t.Errorf("an operator does not see %s", name)
		}
	}
}

// The keys themselves are missing, so that nobody takes a null for "none".
func TestStrangersGetNoKeysOfCommands(t *testing.T) {
	s := serverOf(busyWorker())
	for _, target := range []string{"/inflight", "/inflight/1", "/execs", "/survivors"} {
		for _, key := range []string{`"command"`, `"workspace_key"`, `"tail_text"`} {
			stranger := ask(t, s, unknown, http.MethodGet, target+"?format=json").Body.String()
			if strings.Contains(stranger, key) {
				t.Errorf("GET %s gives a stranger %s", target, key)
			}
			known := ask(t, s, operator, http.MethodGet, target+"?format=json").Body.String()
			if !strings.Contains(known, key) && (key != `"tail_text"` || target == "/survivors") {
				t.Errorf("GET %s does not give an operator %s", target, key)
			}
		}
	}
}

// A command is shown through Preview, which takes secrets out, and no other way.
func TestOperatorsSeeCommandsThroughPreview(t *testing.T) {
	s := serverOf(busyWorker(), func(o *Options) {
		o.Preview = func(s string) string { return strings.ReplaceAll(s, "hunter2", "[redacted]") }
	})
	for _, target := range lists {
		for _, accept := range []string{"*/*", "application/json"} {
			if body := ask(t, s, operator, http.MethodGet, target, "Accept", accept).Body.String(); strings.Contains(body, "hunter2") {
				t.Errorf("GET %s as %s shows a secret of a command", target, accept)
			}
		}
	}
	if body := textOf(t, s, "/inflight"); !strings.Contains(body, "SECRET=[redacted]") {
		t.Errorf("no redacted command in\n%s", body)
	}
}
