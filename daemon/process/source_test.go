package process

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// 8.24: a child that is started elsewhere is a rogue to the keeper, and its
// status gets lost. The folder test is not the program.
func TestSourceStartsProcessesHereOnly(t *testing.T) {
	forbidden := map[string]map[string]bool{
		"os":      {"StartProcess": true},
		"syscall": {"ForkExec": true, "StartProcess": true},
		"os/exec": {"Command": true, "CommandContext": true, "Cmd": true},
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Skip("the module's source is not here")
	}
	seen := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, _ := filepath.Rel(root, path)
		if d.IsDir() {
			if relative == "test" || relative == "tools" || relative == filepath.Join("daemon", "process") || strings.HasPrefix(d.Name(), ".") && relative != "." {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		seen++
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil // not ours to tell
		}
		names := make(map[string]map[string]bool)
		for _, spec := range file.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			name := filepath.Base(imported)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			names[name] = forbidden[imported]
		}
		ast.Inspect(file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if of, ok := selector.X.(*ast.Ident); ok && names[of.Name][selector.Sel.Name] {
				t.Errorf("%s: %s.%s: only daemon/process starts processes", files.Position(n.Pos()), of.Name, selector.Sel.Name)
			}
			return true
		})
		return nil
	})
	if err != nil || seen == 0 {
		t.Errorf("%d files were read, %v", seen, err)
	}
}
