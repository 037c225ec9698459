package main

import (
	"os"
	"reflect"
	"slices"
	"strings"
)

// ours are beginnings of variables that are the worker's business and no
// command's, beside those of the settings.
var ours = []string{"SANDBOX_TOKEN", "ADMIN_", "OTEL_", "EXECWORKER_", "TELEMETRY_"}

// settingsOf returns every field of the struct type t, and of the structs in it,
// that has a variable. Each Index leads from t to the field.
func settingsOf(t reflect.Type) []reflect.StructField {
	var all []reflect.StructField
	for _, f := range reflect.VisibleFields(t) {
		switch {
		case f.Tag.Get("env") != "":
			all = append(all, f)
		case f.Type.Kind() == reflect.Struct && !f.Anonymous:
			for _, deeper := range settingsOf(f.Type) {
				deeper.Index = append(slices.Clone(f.Index), deeper.Index...)
				all = append(all, deeper)
			}
		}
	}
	return all
}

// childEnviron is environ as a command gets to see it: without any setting of
// this program, of whatever command, and without the names in ours.
func childEnviron(environ []string) []string {
	settings := map[string]bool{}
	for _, s := range settingsOf(reflect.TypeFor[commands]()) {
		settings[s.Tag.Get("env")] = true
	}
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return settings[name] ||
			slices.ContainsFunc(ours, func(begin string) bool { return strings.HasPrefix(name, begin) })
	})
}

// unsetEmpty makes an empty variable one that is not set, where the settings
// allow it.
func unsetEmpty() {
	for _, s := range settingsOf(reflect.TypeFor[commands]()) {
		name := s.Tag.Get("env")
		if value, ok := os.LookupEnv(name); ok && value == "" && s.Tag.Get("empty") != "refused" {
			os.Unsetenv(name)
		}
	}
}
