package telemetry

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	grpccodes "google.golang.org/grpc/codes"

	"execworker/daemon/observe"
)

// family is a metric as it is shown, or as the comment of Metrics tells.
type family struct {
	kind   string
	labels []string // sorted
}

var (
	typeLine   = regexp.MustCompile(`(?m)^# TYPE (\w+) (\w+)$`)
	sampleLine = regexp.MustCompile(`(?m)^(\w+)(?:\{(.*)\})? \S+$`)
	labelName  = regexp.MustCompile(`(\w+)="`)
	docLine    = regexp.MustCompile(`(?m)^\t(\w+) +(histogram|counter|gauge)(.*)$`)
)

// families are those of a text, by name, each with all labels that it has in it.
func families(text string) map[string]family {
	all := map[string]family{}
	for _, match := range typeLine.FindAllStringSubmatch(text, -1) {
		all[match[1]] = family{kind: match[2], labels: []string{}}
	}
	for _, match := range sampleLine.FindAllStringSubmatch(text, -1) {
		name := match[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(name, suffix); ok && all[base].kind == "histogram" {
				name = base
			}
		}
		f := all[name]
		for _, label := range labelName.FindAllStringSubmatch(match[2], -1) {
			if label[1] != "le" && !slices.Contains(f.labels, label[1]) {
				f.labels = append(f.labels, label[1])
			}
		}
		slices.Sort(f.labels)
		all[name] = f
	}
	return all
}

// documented are the metrics in the comment of Metrics.
func documented(t *testing.T) map[string]family {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "metric.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]family{}
	for _, d := range f.Decls {
		if d, ok := d.(*ast.GenDecl); ok && strings.HasPrefix(d.Doc.Text(), "Metrics ") {
			for _, match := range docLine.FindAllStringSubmatch(d.Doc.Text(), -1) {
				labels := strings.Fields(match[3])
				slices.Sort(labels)
				all[match[1]] = family{match[2], append([]string{}, labels...)}
			}
		}
	}
	return all
}

// TestTheCommentNamesEveryMetric holds both ways: names, types and labels.
func TestTheCommentNamesEveryMetric(t *testing.T) {
	m := newMetrics(t)
	life(t, m)
	tell(m, []observe.Event{ // labels that only a failure has
		observe.Dequeued{}, observe.Ended{Receipt: observe.Receipt{Outcome: observe.OutcomeSpawnError}},
	})
	shown, want := families(scrape(t, m, "")), documented(t)
	if len(want) != 25 {
		t.Errorf("the comment names %d metrics, and the plan 25", len(want))
	}
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		if strings.HasPrefix(name, "go_") || name == "target_info" {
			continue
		}
		if !reflect.DeepEqual(shown[name], want[name]) {
			t.Errorf("%s is shown as %v, the comment says %v", name, shown[name], want[name])
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("the comment names %s, which is not shown", name)
	}
}

// fill puts text into every string below v, and something into all else.
func fill(v reflect.Value, text string, at time.Time) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Uint64:
		v.SetUint(3)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text, at)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text, at)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(at))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), text, at)
		}
	}
}

// filled is T with text in all its strings.
func filled[T any](text string, at time.Time) T {
	var v T
	fill(reflect.ValueOf(&v).Elem(), text, at)
	return v
}

// TestNoTextOfAnEventIsShown puts text that would forge a line wherever an event
// or a snapshot has room for any.
func TestNoTextOfAnEventIsShown(t *testing.T) {
	const text = "EVIL: no such file or directory\"} 1\n# HELP EVIL\x1b[2J"
	m := newMetrics(t)
	for _, at := range []time.Time{{}, time.Now()} { // dials that fail, and sessions
		ended := filled[observe.Ended](text, at)
		events := []observe.Event{
			filled[observe.Judged](text, at), filled[observe.Dequeued](text, at), filled[observe.Spawned](text, at),
			filled[observe.FirstOutput](text, at), filled[observe.AbortRequested](text, at), filled[observe.KillBegan](text, at),
			filled[observe.KillEnded](text, at), ended, filled[observe.SurvivorsFound](text, at),
			filled[observe.SurvivorsGone](text, at), filled[observe.Dialing](text, at), filled[observe.Attached](text, at),
			filled[observe.SessionEnded](text, at), filled[observe.FrameIgnored](text, at), filled[observe.RogueKilled](text, at),
			filled[observe.WorkspaceSwept](text, at), filled[observe.AdmissionClosed](text, at), filled[observe.AdminDenied](text, at),
		}
		for _, o := range outcomes {
			ended.Receipt.Outcome = o
			events = append(events, ended)
		}
		for _, v := range []observe.Verdict{observe.VerdictBusy, observe.VerdictRefused, observe.VerdictConflict} {
			events = append(events, observe.Judged{Verdict: v, Reason: text})
		}
		tell(m, events)
	}
	m.Ask(&aWorker{
		status:   filled[observe.Status](text, time.Now()),
		inflight: filled[[]observe.Inflight](text, time.Now()),
		dedup:    filled[observe.Dedup](text, time.Now()),
		sessions: filled[[]observe.Session](text, time.Time{}),
	})
	for _, accept := range []string{"", openMetrics} {
		out := scrape(t, m, accept)
		if strings.Contains(out, "EVIL") || strings.Contains(out, "\x1b") {
			t.Errorf("it is in:\n%s", out)
		}
	}
	wantMetrics(t, m, `sandbox_exec_duration_seconds_count{outcome="other",streaming="true"} 2`)
}

// textsOfTheCore are the string literals that match in the Go files of daemon,
// for the core has no constants for them.
func textsOfTheCore(t *testing.T, pick func(n ast.Node) []ast.Expr) []string {
	t.Helper()
	paths, err := filepath.Glob("../daemon/*.go")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%v, %d files", err, len(paths))
	}
	var texts []string
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			for _, e := range pick(n) {
				if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					text, _ := strconv.Unquote(lit.Value)
					texts = append(texts, text)
				}
			}
			return true
		})
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

func TestEveryEndReasonOfTheCoreIsKnown(t *testing.T) {
	got := textsOfTheCore(t, func(n ast.Node) (all []ast.Expr) {
		if f, ok := n.(*ast.FuncDecl); ok && f.Name.Name == "endReason" {
			ast.Inspect(f, func(n ast.Node) bool {
				if r, ok := n.(*ast.ReturnStmt); ok {
					all = append(all, r.Results...)
				}
				return true
			})
		}
		return all
	})
	if want := slices.Sorted(slices.Values(endReasons)); !slices.Equal(got, want) {
		t.Errorf("the core says %q, known are %q", got, want)
	}
}

func TestEveryBusyReasonOfTheCoreIsKnown(t *testing.T) {
	got := textsOfTheCore(t, func(n ast.Node) []ast.Expr {
		if c, ok := n.(*ast.CallExpr); ok {
			if f, ok := c.Fun.(*ast.Ident); ok && f.Name == "busy" {
				return c.Args
			}
		}
		return nil
	})
	if known := slices.Sorted(maps.Keys(busy)); !slices.Equal(got, known) {
		t.Errorf("the core says %q, known are %q", got, known)
	}
}

func TestOtherTextsOfTheCoreAreAsKnown(t *testing.T) {
	all := textsOfTheCore(t, func(n ast.Node) []ast.Expr {
		if e, ok := n.(*ast.BasicLit); ok {
			return []ast.Expr{e}
		}
		return nil
	})
	if !slices.Contains(all, abortOfNothing) {
		t.Errorf("the core does not say %q", abortOfNothing)
	}
	if !slices.ContainsFunc(all, func(text string) bool {
		return refusal(observe.VerdictRefused, text) == refusedBehind
	}) {
		t.Error("the core has no refusal behind a run that is not contained")
	}
}

func TestEveryCodeOfGRPCIsKnown(t *testing.T) {
	var want []string
	for c := grpccodes.Canceled; c <= grpccodes.Unauthenticated; c++ {
		want = append(want, c.String())
	}
	if !slices.Equal(grpcCodes, want) {
		t.Errorf("known are %q, want %q", grpcCodes, want)
	}
}
