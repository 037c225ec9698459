package main

import (
	"bytes"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// flagsOf returns the flags of all commands that have a variable.
func flagsOf(t *testing.T) []*kong.Flag {
	t.Helper()
	var all commands
	parser, err := newParser(&all, &program{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}})
	if err != nil {
		t.Fatal(err)
	}
	var flags []*kong.Flag
	for _, command := range parser.Model.Leaves(false) {
		for _, f := range command.Flags {
			if len(f.Envs) > 0 {
				flags = append(flags, f)
			}
		}
	}
	if len(flags) < 20 {
		t.Fatalf("only %d flags with a variable", len(flags))
	}
	return flags
}

// kong's own view of the settings, which is not how childEnviron finds them.
func TestChildSeesNoSetting(t *testing.T) {
	kept := []string{"PATH=/bin", "HOME=/root", "RELAY=mine", "MY_SANDBOX_TOKEN=mine", "EMPTY=", "odd entry"}
	environ := append(slices.Clone(kept),
		"SANDBOX_TOKEN_OLD=x", "SANDBOX_TOKENS=x", "ADMIN_TOKEN=x", "ADMIN_ADDR=x", "OTEL_EXPORTER_OTLP_HEADERS=x",
		"EXECWORKER_GUARDIAN=x", "TELEMETRY_HASH_KEY=x", "RELAY_EXEC_TOKEN=x", "SANDBOX_TOKEN")
	for _, f := range flagsOf(t) {
		environ = append(environ, f.Envs[0]+"=x")
	}
	if got := childEnviron(environ); !slices.Equal(got, kept) {
		t.Errorf("got %q, want %q", got, kept)
	}
}

func TestEverySettingIsDocumented(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range flagsOf(t) {
		if f.Help == "" {
			t.Errorf("%s has no help", f.Envs[0])
		}
		row := slices.IndexFunc(strings.Split(string(readme), "\n"), func(line string) bool {
			return strings.HasPrefix(line, "|") && strings.Contains(line, "`"+f.Envs[0]+"`") &&
				strings.Contains(line, defaultOf(f.Value))
		})
		if row < 0 {
			t.Errorf("README.md has no table row with `%s` and its default %q", f.Envs[0], defaultOf(f.Value))
		}
	}
}

func TestEmptyVariableCountsAsUnset(t *testing.T) {
	clearSettings(t)
	for _, s := range settingsOf(reflect.TypeFor[commands]()) {
		name, refused := s.Tag.Get("env"), s.Tag.Get("empty") == "refused"
		t.Setenv(name, "")
		unsetEmpty()
		if _, isSet := os.LookupEnv(name); isSet != refused {
			t.Errorf("%s: still set is %v", name, isSet)
		}
		t.Setenv(name, "x")
		unsetEmpty()
		if os.Getenv(name) != "x" {
			t.Errorf("%s: lost its value", name)
		}
	}
}
