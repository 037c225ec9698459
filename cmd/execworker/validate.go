package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"execworker/telemetry"
)

// Each group of settings says in problem what is wrong with it: a sentence for
// each thing, with the variable and the way out.

// problem is also about the three files and the switch, which must fit together.
func (s linkSettings) problem() error {
	if err := errors.Join(hostPort("RELAY_ADDR", s.RelayAddr, 1), proxyProblem(s.RelayAddr)); err != nil {
		return err
	}
	files := []struct{ name, path string }{
		{"RELAY_CA_FILE", s.RelayCAFile}, {"RELAY_CERT_FILE", s.RelayCertFile}, {"RELAY_KEY_FILE", s.RelayKeyFile},
	}
	for _, f := range files {
		if f.path != "" && !bool(s.RelayTLS) {
			return fmt.Errorf("%s is set, but RELAY_TLS is not: set RELAY_TLS=1, or unset %s", f.name, f.name)
		}
	}
	if (s.RelayCertFile == "") != (s.RelayKeyFile == "") {
		set, unset := "RELAY_CERT_FILE", "RELAY_KEY_FILE"
		if s.RelayCertFile == "" {
			set, unset = unset, set
		}
		return fmt.Errorf("%s is set, but %s is not: set both or neither", set, unset)
	}
	_, err := s.tlsConfig()
	return err
}

func (s tokenSettings) problem() error {
	switch {
	case s.SandboxToken != "" && s.SandboxTokenFile != "":
		return errors.New("SANDBOX_TOKEN and SANDBOX_TOKEN_FILE are both set: unset one of them")
	case s.SandboxToken == "" && s.SandboxTokenFile == "" && isSet("SANDBOX_TOKEN", "SANDBOX_TOKEN_FILE"):
		return fmt.Errorf("SANDBOX_TOKEN is empty: set it, or unset it to use %q", devToken)
	}
	_, err := s.token()
	return err
}

func (s execTokenSettings) problem() error {
	if s.RelayExecToken == "" {
		return nil
	}
	return tokenProblem("RELAY_EXEC_TOKEN", s.RelayExecToken)
}

func (s sandboxSettings) problem() error {
	if s.SandboxID == "" {
		return errors.New("SANDBOX_ID is empty: set it to the name of this sandbox")
	}
	if strings.Contains(s.SandboxID, " ") {
		return fmt.Errorf("SANDBOX_ID is %q: want a name without spaces", s.SandboxID)
	}
	return printable("SANDBOX_ID", s.SandboxID)
}

func (s logSettings) problem() error {
	return errors.Join(
		oneOf("LOG_LEVEL", s.LogLevel, "debug", "info", "warn", "error"),
		oneOf("LOG_FORMAT", s.LogFormat, telemetry.FormatAuto, telemetry.FormatText, telemetry.FormatJSON))
}

func (s listenSettings) problem() error { return hostPort("RELAY_LISTEN", s.RelayListen, 0) }

func (s workerSettings) problem() error {
	problems := []error{
		oneOf("EXECWORKER_SURVIVORS", s.ExecworkerSurvivors, "keep", "sweep"),
		between("WORKER_MAX_CONCURRENT", s.WorkerMaxConcurrent, 1, 4096),
		between("EXECWORKER_NICE", s.ExecworkerNice, 0, 19),
		printable("SANDBOX_IMAGE", s.SandboxImage),
		printable("SANDBOX_TRUST", s.SandboxTrust),
		workspaceProblem(s.WorkspaceRoot),
	}
	for _, key := range slices.Sorted(maps.Keys(s.WorkerLabels)) {
		problems = append(problems, printable("a key in WORKER_LABELS", key), printable("a value in WORKER_LABELS", s.WorkerLabels[key]))
	}
	if s.WorkspaceIdle < 0 {
		problems = append(problems, fmt.Errorf("WORKSPACE_IDLE is negative (%s): set 0 to keep directories for ever", s.WorkspaceIdle))
	}
	if s.ExecworkerDrain < 0 {
		problems = append(problems, fmt.Errorf("EXECWORKER_DRAIN is negative (%s): set 0 to stop running commands at once", s.ExecworkerDrain))
	}
	return errors.Join(problems...)
}

// tokenProblem lets through what can stand in an HTTP header and comes out of it
// as it went in. It never quotes the token.
func tokenProblem(name, token string) error {
	if token == "" {
		return fmt.Errorf("%s holds no token", name)
	}
	if len(token) > maxToken {
		return fmt.Errorf("%s holds %d bytes: use a token of at most %d", name, len(token), maxToken)
	}
	for _, b := range []byte(token) {
		if b <= ' ' || b > '~' {
			return fmt.Errorf("%s holds a byte that no token may have (%#02x): use printable ASCII without spaces", name, b)
		}
	}
	return nil
}

// maxName is what a name or a label that goes to the relay may have, in bytes.
const maxName = 256

// printable refuses what a log or a terminal could not show as it is.
func printable(name, value string) error {
	if len(value) > maxName {
		return fmt.Errorf("%s has %d bytes: use at most %d", name, len(value), maxName)
	}
	if telemetry.Visible(value) != value {
		return fmt.Errorf("%s is %q: use printable characters only", name, value)
	}
	return nil
}

// workspaceProblem lets through a directory, and one that can still be made.
func workspaceProblem(root string) error {
	if !filepath.IsAbs(root) {
		return fmt.Errorf("WORKSPACE_ROOT is %q: want an absolute path, such as /workspace", root)
	}
	info, err := os.Stat(root)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("WORKSPACE_ROOT is %q, which is no directory: name another path, or remove it", root)
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return nil // its use says so, and there may be none
	}
	return fmt.Errorf("WORKSPACE_ROOT cannot be a directory: name another path: %w", err)
}

func oneOf(name, value string, words ...string) error {
	if slices.Contains(words, value) {
		return nil
	}
	return fmt.Errorf("%s is %q: want one of %s", name, value, strings.Join(words, ", "))
}

func between(name string, value, low, high number) error {
	if value < low || value > high {
		return fmt.Errorf("%s is %d: want a number from %d to %d", name, value, low, high)
	}
	return nil
}

// notUTF8 refuses text that could not go into a Hello, in any variable of the
// struct command. It looks at the environment, because kong has by then put
// other characters in the place of those bytes; parse looks at the arguments.
func notUTF8(command any) error {
	var problems []error
	for _, s := range settingsOf(reflect.TypeOf(command)) {
		if name := s.Tag.Get("env"); !utf8.ValidString(os.Getenv(name)) {
			problems = append(problems, fmt.Errorf("%s is not UTF-8: set it to text that is", name))
		}
	}
	return errors.Join(problems...)
}

// isSet says whether any of the variables is there, be it empty.
func isSet(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, ok := os.LookupEnv(name)
		return ok
	})
}
