package admin

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// checker holds answers against the schemas that are served.
type checker struct {
	t       *testing.T
	schemas map[string]any
	filled  map[string]bool // Schema.field that has been anything but null
	seen    map[string]bool
}

func (c *checker) checkAnswer(target string, op describedOperation, answer *httptest.ResponseRecorder) {
	c.t.Helper()
	kind, code := answer.Header().Get("Content-Type"), strconv.Itoa(answer.Code)
	if kind == "application/problem+json" {
		code = "default"
	}
	content, ok := op.Responses[code].Content[kind]
	if !ok {
		c.t.Errorf("GET %s: %d %s is not described", target, answer.Code, kind)
		return
	}
	c.check(target, content.Schema, parsed(c.t, answer.Body.String()))
}

func (c *checker) check(where string, schema map[string]any, v any) {
	c.t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/components/schemas/")
		named, ok := c.schemas[name].(map[string]any)
		if !ok {
			c.t.Fatalf("%s: no schema %s", where, ref)
		}
		c.checkObject(where, name, named, v)
		return
	}
	if options, ok := schema["anyOf"].([]any); ok {
		if v == nil {
			return
		}
		c.check(where, options[0].(map[string]any), v)
		return
	}
	types, _ := schema["type"].([]any)
	if one, ok := schema["type"].(string); ok {
		types = []any{one}
	}
	var kind string
	switch v := v.(type) {
	case nil:
		kind = "null"
	case string:
		kind = "string"
		if _, err := time.Parse(time.RFC3339, v); schema["format"] == "date-time" && (err != nil || !strings.HasSuffix(v, "Z")) {
			c.t.Errorf("%s is no time in UTC: %q", where, v)
		}
	case bool:
		kind = "boolean"
	case json.Number:
		kind = "integer"
		if strings.ContainsAny(v.String(), ".eE") {
			kind = "number"
		}
	case []any:
		kind = "array"
		for i, each := range v {
			c.check(fmt.Sprintf("%s[%d]", where, i), schema["items"].(map[string]any), each)
		}
	case map[string]any:
		kind = "object"
	}
	if len(types) > 0 && !slices.Contains(types, any(kind)) {
		c.t.Errorf("%s is a %s, and is described as %v", where, kind, types)
	}
}

func (c *checker) checkObject(where, name string, schema map[string]any, v any) {
	c.t.Helper()
	keys, ok := v.(map[string]any)
	if !ok {
		c.t.Errorf("%s is no object but %v", where, v)
		return
	}
	properties := schema["properties"].(map[string]any)
	for key, value := range keys {
		property, ok := properties[key].(map[string]any)
		if !ok {
			c.t.Errorf("%s.%s is not described", where, key)
			continue
		}
		c.seen[name+"."+key] = true
		c.filled[name+"."+key] = c.filled[name+"."+key] || value != nil
		c.check(where+"."+key, property, value)
	}
	for _, key := range schema["required"].([]any) {
		if _, ok := keys[key.(string)]; !ok {
			c.t.Errorf("%s has no %s, which is always there", where, key)
		}
	}
}

// Real answers, of a worker with one of everything and of one with nothing, to
// operators and strangers, are as the description says, and fill every field.
func TestAnswersAreAsDescribed(t *testing.T) {
	waiting := busyWorker()
	waiting.status.Attached, waiting.status.Session, waiting.status.NextAttempt = false, 0, time.Now().Add(time.Minute)
	waiting.sessions[0].EndedAt = time.Now().Add(-time.Minute)
	exited := busyWorker()
	exited.receipts[0].Signal, exited.receipts[0].ExitCode = "", 7
	c := &checker{filled: map[string]bool{}, seen: map[string]bool{}}
	for _, w := range []*fakeWorker{busyWorker(), waiting, exited, {}} {
		s := fullServer(w)
		s.revert.set(s.options.Level, slog.LevelDebug, time.Hour)
		t.Cleanup(s.revert.cancel)
		d := described(t, s)
		c.t, c.schemas = t, d.Components.Schemas
		for path, methods := range d.Paths {
			op := methods["get"]
			if _, ok := op.Responses["200"].Content["application/json"]; !ok {
				continue
			}
			targets := []string{targetOf(path), strings.NewReplacer(canonical, "", "{req_id}", "2").Replace(path)}
			for _, target := range slices.Compact(targets) {
				for _, who := range []class{operator, unknown} {
					answer := ask(t, s, who, http.MethodGet, target, "Accept", "application/json")
					c.checkAnswer(target, op, answer)
				}
			}
		}
	}
	for _, field := range slices.Sorted(maps.Keys(c.seen)) {
		if !c.filled[field] {
			t.Errorf("%s is never filled", field)
		}
	}
}

func parsed(t *testing.T, text string) (v any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// A key that can be missing is one that an operator alone gets.
func TestOnlyCommandAndWorkspaceMayBeMissing(t *testing.T) {
	var got []string
	for _, v := range []any{inflightView{}, receiptView{}, sessionView{}} {
		all := schemas{}
		all.of(v)
		for name, schema := range all {
			required := schema["required"].([]string)
			properties := schema["properties"].(object)
			if len(required) == 0 || len(required) > len(properties) {
				got = append(got, name)
			}
			for key := range properties {
				optional := key == "command" || key == "workspace_key"
				if slices.Contains(required, key) == optional {
					got = append(got, name+"."+key)
				}
			}
		}
	}
	if got != nil {
		t.Errorf("required or not the wrong way: %q", got)
	}
}
