package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"execworker/telemetry"
)

// Each group of settings says in problem what is wrong with it: a sentence for
// each thing, with the variable and the way out.

// problem is also about the three files and the switch, which must fit together.
func (s linkSettings) problem() error {
	if err := hostPort("RELAY_ADDR", s.RelayAddr, 1); err != nil {
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
	return nil
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
	for _, b := range []byte(token) {
		if b <= ' ' || b > '~' {
			return fmt.Errorf("%s holds a byte that no token may have (%#02x): use printable ASCII without spaces", name, b)
		}
	}
	return nil
}

func hostPort(name, value string, minPort int) error {
	host, port, err := net.SplitHostPort(value)
	if err != nil || host == "" {
		return fmt.Errorf("%s is %q: want host:port, such as relay.example:8443", name, value)
	}
	if n, err := strconv.Atoi(port); err != nil || n < minPort || n > 65535 {
		return fmt.Errorf("%s is %q: want a port from %d to 65535", name, value, minPort)
	}
	return nil
}

func oneOf(name, value string, words ...string) error {
	if slices.Contains(words, value) {
		return nil
	}
	return fmt.Errorf("%s is %q: want one of %s", name, value, strings.Join(words, ", "))
}

func between(name string, value, low, high int) error {
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
