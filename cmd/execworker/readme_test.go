package main

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestREADMEListsEverySetting holds the README's table to the settings. On
// failure it prints the table as it should be.
func TestREADMEListsEverySetting(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "<!-- settings: checked by TestREADMEListsEverySetting -->\n\n")
	got, _, ended := strings.Cut(rest, "\n<!-- end of settings -->")
	if !found || !ended {
		t.Fatal("the README has no settings table")
	}
	if want := settingsTable(); got != want {
		t.Errorf("the README's table should be:\n\n%s", want)
	}
}

// settingsTable is every setting once, in the order of the commands.
func settingsTable() string {
	var table strings.Builder
	table.WriteString("| variable | default | meaning |\n|---|---|---|\n")
	seen := map[string]bool{}
	for _, s := range settingsOf(reflect.TypeFor[commands]()) {
		name := s.Tag.Get("env")
		if seen[name] {
			continue
		}
		seen[name] = true
		shown := s.Tag.Get("default") + s.Tag.Get("default-shown")
		if shown != "" {
			shown += " "
		}
		table.WriteString("| `" + name + "` | " + shown + "| " + s.Tag.Get("help") + " |\n")
	}
	return table.String()
}
