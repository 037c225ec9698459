package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"

	"execworker/admin"
)

// socketSettings say where the admin API is: the worker serves there, and its
// clients ask there.
type socketSettings struct {
	AdminSocket string `env:"ADMIN_SOCKET" default-shown:"/run/execworker/admin.sock" placeholder:"PATH" help:"Unix socket of the admin API. Where the default cannot be made: execworker/admin.sock in $XDG_RUNTIME_DIR, or execworker-UID/admin.sock in the temporary folder."`
}

// adminSettings are those of the admin API.
type adminSettings struct {
	socketSettings
	AdminAddr  string     `env:"ADMIN_ADDR" default:"localhost:9690" placeholder:"HOST:PORT" help:"Loopback addresses of the admin API, commas between; the first that can be bound serves. localhost is 127.0.0.1 and ::1. off: the socket alone."`
	AdminToken string     `env:"ADMIN_TOKEN" hidden:"" empty:"refused" default-shown:"none" help:"Token that makes an operator of whoever has no process here, such as a port forward. 16 characters at least."`
	AdminHosts names      `env:"ADMIN_HOSTS" placeholder:"NAME,NAME" help:"Names that the Host header may have, beside localhost, 127.0.0.1 and ::1."`
	AdminDebug strictBool `env:"ADMIN_DEBUG" default:"0" empty:"refused" help:"Serve profiles of the worker itself to operators: 0, 1, true or false. They hold commands and tokens."`
}

// names are words with commas between.
type names []string

// String is what UnmarshalText takes.
func (n names) String() string { return strings.Join(n, ",") }

// UnmarshalText takes host names.
func (n *names) UnmarshalText(text []byte) error {
	*n = nil
	for name := range strings.SplitSeq(string(text), ",") {
		name = strings.TrimSpace(name)
		if name == "" && len(text) == 0 {
			continue
		}
		if !isHost(name, false) {
			return fmt.Errorf("want host names with commas between, not %q", name)
		}
		*n = append(*n, name)
	}
	return nil
}

// addrs are the candidates; none when it is off.
func (s adminSettings) addrs() []string {
	if s.AdminAddr == "off" {
		return nil
	}
	var all []string
	for addr := range strings.SplitSeq(s.AdminAddr, ",") {
		all = append(all, strings.TrimSpace(addr))
	}
	return all
}

// leastAdminToken is short enough to remember and too long to try out.
const leastAdminToken = 16

func (s adminSettings) problem() error {
	var problems []error
	for _, addr := range s.addrs() {
		if err := admin.CheckAddr(addr); err != nil {
			problems = append(problems, fmt.Errorf("ADMIN_ADDR: %w, or off", err))
		}
	}
	if s.AdminToken != "" || isSet("ADMIN_TOKEN") {
		err := tokenProblem("ADMIN_TOKEN", s.AdminToken)
		if err == nil && len(s.AdminToken) < leastAdminToken {
			err = fmt.Errorf("ADMIN_TOKEN has %d characters: use at least %d", len(s.AdminToken), leastAdminToken)
		}
		problems = append(problems, err)
	}
	return errors.Join(append(problems, s.socketSettings.problem())...)
}

// socketMost is what the path of a socket may have, in bytes (unix(7)).
const socketMost = 107

func (s socketSettings) problem() error {
	switch {
	case s.AdminSocket == "":
		return nil
	case !filepath.IsAbs(s.AdminSocket):
		return fmt.Errorf("ADMIN_SOCKET is %q: want an absolute path, such as /run/execworker/admin.sock", s.AdminSocket)
	case len(s.AdminSocket) > socketMost:
		return fmt.Errorf("ADMIN_SOCKET has %d bytes: use a path of at most %d", len(s.AdminSocket), socketMost)
	}
	return printable("ADMIN_SOCKET", s.AdminSocket)
}

// settingsInUse are the settings of the chosen command as they are, for the
// admin API. Of a secret it says only whether there is one.
func settingsInUse(ctx *kong.Context) []admin.Flag {
	given := make(map[string]bool) // on the command line
	for _, el := range ctx.Path {
		if el.Flag != nil && !el.Resolved {
			given[el.Flag.Name] = true
		}
	}
	var all []admin.Flag
	for _, flag := range ctx.Flags() {
		if len(flag.Envs) == 0 {
			continue
		}
		f := admin.Flag{Name: flag.Envs[0], Source: "default", Secret: isSecret(flag)}
		_, inEnvironment := os.LookupEnv(flag.Envs[0])
		switch {
		case given[flag.Name]:
			f.Source = "flag"
		case inEnvironment:
			f.Source = "environment"
		}
		f.Value = fmt.Sprint(flag.Target.Interface())
		if f.Secret {
			f.Value = "unset"
			if inEnvironment {
				f.Value = "set"
			}
		}
		all = append(all, f)
	}
	return all
}
