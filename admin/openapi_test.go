package admin

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
)

// fullServer has every route there can be.
func fullServer(w *fakeWorker) *Server {
	return serverOf(w, func(o *Options) {
		o.Metrics = http.NotFoundHandler()
		o.Flags = []Flag{{Name: "RELAY_ADDR", Value: "relay:8443", Source: "environment"}, {Name: "ADMIN_TOKEN", Value: "set", Source: "environment", Secret: true}}
	})
}

// described is the description as a client reads it.
func described(t *testing.T, s *Server) (d struct {
	OpenAPI    string
	Paths      map[string]map[string]describedOperation
	Components struct{ Schemas map[string]any }
},
) {
	t.Helper()
	answer := ask(t, s, unknown, http.MethodGet, "/openapi.json")
	if err := json.Unmarshal(answer.Body.Bytes(), &d); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("%d %v", answer.Code, err)
	}
	return d
}

type describedOperation struct {
	OperationID string
	Summary     string
	Parameters  []struct {
		Name, In, Description string
		Schema                struct {
			Enum  []string
			Items struct{ Enum []string }
		}
	}
	Responses map[string]struct {
		Description string
		Content     map[string]struct{ Schema map[string]any }
	}
	Who string `json:"x-who"`
}

func TestEveryRouteIsDescribedAndEveryDescriptionIsARoute(t *testing.T) {
	s := fullServer(busyWorker())
	paths := described(t, s).Paths
	walked := map[string]bool{}
	err := chi.Walk(s.Handler().(chi.Routes), func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		path = below(path)
		walked[method+" "+path] = true
		op, ok := paths[canonical+path][strings.ToLower(method)]
		if !ok || op.Summary == "" {
			t.Errorf("%s %s is not described: add it to operations", method, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range operations {
		if !walked[name] {
			t.Errorf("%s is in operations and is no route", name)
		}
	}
	for path, methods := range paths {
		for method := range methods {
			if !walked[strings.ToUpper(method)+" "+strings.TrimPrefix(path, canonical)] {
				t.Errorf("%s %s is described and is no route", method, path)
			}
		}
	}
}

func TestEveryFieldIsExplained(t *testing.T) {
	for name, schema := range described(t, fullServer(busyWorker())).Components.Schemas {
		properties, _ := schema.(map[string]any)["properties"].(map[string]any)
		if len(properties) == 0 {
			t.Errorf("%s has no fields", name)
		}
		for field, property := range properties {
			if property.(map[string]any)["description"] == nil {
				t.Errorf("nothing is said of %s.%s: add it to words", name, field)
			}
		}
	}
}

func TestEveryWordIsUsed(t *testing.T) {
	if len(words) != len(execWords)+len(workerWords) {
		t.Error("something is said twice")
	}
	text := ask(t, fullServer(busyWorker()), unknown, http.MethodGet, "/openapi.json").Body.String()
	for key, about := range words {
		said, err := encode(about, "")
		if err != nil || !strings.Contains(text, strings.TrimSpace(string(said))) {
			t.Errorf("words has %s, which no answer has (%v)", key, err)
		}
	}
}

// What the description says of parameters is what the handlers take: all of them,
// no others, with every word that it lists.
func TestEveryParameterIsDescribedAndTaken(t *testing.T) {
	s := fullServer(busyWorker())
	for path, methods := range described(t, s).Paths {
		target := targetOf(path)
		for method, op := range methods {
			if op.Who == "debug" || target == "/metrics" { // others' parameters
				continue
			}
			method := strings.ToUpper(method)
			t.Run(method+target, func(t *testing.T) {
				names := []string{}
				for _, p := range op.Parameters {
					if p.In != "query" {
						continue
					}
					names = append(names, p.Name)
					if method != http.MethodGet || slices.Contains(streams, target) {
						continue // those would do something, or not end
					}
					for _, value := range append(slices.Concat(p.Schema.Enum, p.Schema.Items.Enum), exampleOf(method, path, p.Name)) {
						if answer := ask(t, s, operator, method, target+"?"+p.Name+"="+value); answer.Code == http.StatusBadRequest {
							t.Errorf("%s=%s is described and not taken: %s", p.Name, value, answer.Body)
						}
					}
				}
				slices.Sort(names)
				if taken := takenBy(t, s, method, target); !slices.Equal(taken, names) {
					t.Errorf("it takes %q and describes %q", taken, names)
				}
			})
		}
	}
}

// takenBy is what a route says it takes when it is asked for nonsense.
func takenBy(t *testing.T, s *Server, method, target string) []string {
	t.Helper()
	answer := ask(t, s, operator, method, target+"?nonsense=1")
	var p problem
	if err := json.Unmarshal(answer.Body.Bytes(), &p); err != nil || answer.Code != http.StatusBadRequest {
		t.Fatalf("an unknown parameter: %d %v", answer.Code, err)
	}
	taken := strings.Split(strings.TrimPrefix(p.Hint, "use any of "), ", ")
	slices.Sort(taken)
	return taken
}

// targetOf is a path with something in its places.
func targetOf(path string) string {
	return strings.NewReplacer(canonical, "", "/inflight/{req_id}", "/inflight/1", "{req_id}", "3", "{profile}", "heap").Replace(path)
}

// streams do not end by themselves, so the tests of the feed are about them.
var streams = []string{"/events"}

func exampleOf(method, path, name string) string {
	op := operations[method+" "+strings.TrimPrefix(path, canonical)]
	for _, p := range append(slices.Clone(op.query), op.formats()...) {
		if p.name == name {
			return p.example
		}
	}
	return ""
}

func TestTheDescriptionSaysWhoMayAsk(t *testing.T) {
	s := fullServer(busyWorker())
	for path, methods := range described(t, s).Paths {
		target := targetOf(path)
		for method, op := range methods {
			if slices.Contains(streams, target) {
				continue
			}
			refused := ask(t, s, unknown, strings.ToUpper(method), target).Code == http.StatusUnauthorized
			if refused != (op.Who != "any") {
				t.Errorf("%s %s is for %s, and refusing a stranger is %t", method, target, op.Who, refused)
			}
			debugOff := op.Who != "any" && method == "get" && ask(t, s, operator, http.MethodGet, target).Code == http.StatusForbidden
			if debugOff != (op.Who == "debug") {
				t.Errorf("%s %s is for %s, and is for debugging: %t", method, target, op.Who, debugOff)
			}
		}
	}
}

func TestOperationsHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]string{}
	for path, methods := range described(t, fullServer(busyWorker())).Paths {
		for method, op := range methods {
			if other, twice := seen[op.OperationID]; twice || op.OperationID == "" {
				t.Errorf("%s %s and %s are both %q", method, path, other, op.OperationID)
			}
			seen[op.OperationID] = method + " " + path
		}
	}
}
