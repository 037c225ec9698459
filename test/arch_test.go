// Package test holds what is true of the module as a whole.
package test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module is the import path that all of ours begin with, and root its folder.
const (
	module = "execworker"
	root   = ".."
)

// all lets a package import everything of this module but test.
var all = []string{"*"}

// mayImport is the picture of who may know whom: for each package, the packages
// of this module that it may import. A package that is not here is a failure, so
// that a new one is thought about; below test, it may import everything.
var mayImport = map[string][]string{
	"admin":            {"daemon/observe"},
	"cmd/execworker":   all,
	"daemon":           {"daemon/observe", "daemon/runner", "daemon/process", "proto/sandbox/v1"},
	"daemon/devrelay":  {"proto/sandbox/v1"},
	"daemon/observe":   {},
	"daemon/process":   {},
	"daemon/runner":    {"daemon/observe", "daemon/process"},
	"proto/sandbox/v1": {},
	"telemetry":        {"daemon/observe"},
	"test/relaytest":   {"proto/sandbox/v1"},
}

// mustNotKnow are packages of others that a package and all below it may not
// reach by any way, with the reason.
var mustNotKnow = []struct{ of, prefix, why string }{
	{"daemon", "go.opentelemetry.io", "the core reports events; telemetry makes spans of them"},
	{"daemon", "github.com/go-chi", "the core is not reached by HTTP; admin is"},
	{"daemon", "github.com/lmittmann/tint", "the core does not log"},
	{"daemon", "github.com/alecthomas/kong", "only cmd reads settings"},
	{"admin", "google.golang.org/grpc", "the admin API sees snapshots and events, no wire"},
	{"daemon/observe", "google.golang.org", "the words for what happened know no wire"},
	{"daemon/observe", "net/http", "the words for what happened know no way of showing things"},
	{"daemon/process", "google.golang.org", "processes know no wire"},
	{"daemon/process", "net/http", "processes know no wire"},
	{"daemon/runner", "google.golang.org", "one command knows no frames"},
	{"daemon/runner", "net/http", "one command knows no frames"},
}

// mustNotImport are packages that grpc brings in anyway, so that only importing
// them ourselves can be forbidden.
var mustNotImport = []struct{ of, path, why string }{
	{"daemon", "net/http", "the core is not reached by HTTP; admin is"},
	{"daemon", "log/slog", "what is worth logging is an event that has no name yet"},
	{"telemetry", "google.golang.org/grpc", "observers know no wire: the exporters do"},
	{"daemon", "log", "what is worth logging is an event that has no name yet"},
}

// pkg is a package as "go list" sees it.
type pkg struct {
	Dir, ImportPath string
	GoFiles         []string
	Imports, Deps   []string
}

// name is the package's path in the module.
func (p pkg) name() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// isWithin says whether the package is of or below it.
func (p pkg) isWithin(of string) bool { return p.name() == of || strings.HasPrefix(p.name(), of+"/") }

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=Dir,ImportPath,GoFiles,Imports,Deps", "./...")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all []pkg
	for decoder := json.NewDecoder(out); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if err := cmd.Wait(); err != nil || len(all) < 8 {
		t.Fatalf("go list: %v, %d packages", err, len(all))
	}
	return all
}

func TestArrows(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range packages(t) {
		seen[p.name()] = true
		allowed, known := mayImport[p.name()]
		if !known && p.isWithin("test") {
			allowed, known = all, true
		}
		if !known {
			t.Errorf("%s is not in the table: say in mayImport what it may import", p.name())
			continue
		}
		for _, path := range p.Imports {
			of, ours := strings.CutPrefix(path, module+"/")
			isTest := of == "test" || strings.HasPrefix(of, "test/")
			open := slices.Equal(allowed, all) && (!isTest || p.isWithin("test"))
			if ours && !open && !slices.Contains(allowed, of) {
				t.Errorf("%s imports %s, and may only import %v", p.name(), of, allowed)
			}
		}
	}
	for name := range mayImport {
		if !seen[name] {
			t.Errorf("%s is in the table and not in the module", name)
		}
	}
}

func TestForeignArrows(t *testing.T) {
	for _, p := range packages(t) {
		for _, rule := range mustNotKnow {
			for _, dep := range p.Deps {
				if p.isWithin(rule.of) && strings.HasPrefix(dep, rule.prefix) {
					t.Errorf("%s reaches %s: %s", p.name(), dep, rule.why)
				}
			}
		}
		for _, rule := range mustNotImport {
			if p.isWithin(rule.of) && slices.Contains(p.Imports, rule.path) {
				t.Errorf("%s imports %s: %s", p.name(), rule.path, rule.why)
			}
		}
	}
}

// goFiles returns the path of every Go file of the module that no tool wrote,
// with its text. Folders with a go.mod of their own are other modules.
func goFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if path != root && (err == nil || strings.HasPrefix(d.Name(), ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments|parser.PackageClauseOnly); err != nil {
			return err
		} else if !ast.IsGenerated(f) {
			files[path] = string(text)
		}
		return nil
	})
	if err != nil || len(files) < 20 {
		t.Fatalf("%v, %d files", err, len(files))
	}
	return files
}

func TestFilesAreShort(t *testing.T) {
	const most = 300
	for path, text := range goFiles(t) {
		if n := strings.Count(text, "\n"); n > most {
			t.Errorf("%s has %d lines, at most %d: split it by subject", path, n, most)
		}
	}
}

// A package of test files alone has its comment in one of those.
func TestEveryPackageHasOneComment(t *testing.T) {
	comments := map[string][]string{} // by folder
	for path, text := range goFiles(t) {
		dir := filepath.Dir(path)
		f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		if comments[dir] == nil {
			comments[dir] = []string{}
		}
		if f.Doc != nil {
			comments[dir] = append(comments[dir], filepath.Base(path))
		}
	}
	for dir, in := range comments {
		if strings.HasPrefix(dir, filepath.Join(root, "proto")) {
			continue // the .proto file has it
		}
		if len(in) != 1 {
			t.Errorf("%s has %d package comments, want 1: %v", dir, len(in), in)
		}
	}
}

// The tools' dependencies are no dependencies of the worker.
func TestToolsAreModulesOfTheirOwn(t *testing.T) {
	for _, dir := range []string{"tools", "tools/buf"} {
		text, err := os.ReadFile(filepath.Join(root, dir, "go.mod"))
		if err != nil {
			t.Error(err)
		} else if !strings.HasPrefix(string(text), "module "+module+"/"+dir+"\n") {
			t.Errorf("%s/go.mod does not begin with its own module", dir)
		}
	}
}
