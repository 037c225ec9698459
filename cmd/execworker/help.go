package main

import (
	"fmt"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// Exit codes. Those of exec are besides these; see exec.go.
const (
	exitOK     = 0
	exitFailed = 1   // could not run
	exitUsage  = 2   // bad settings or usage
	exitSignal = 130 // ended by a second signal, or aborted
)

const description = `Runs the commands that come down the wire from a relay, in the sandbox it lives in, and makes sure that nothing of them is left when they are aborted.

Try it on this machine, one line a terminal:

    execworker demo
    execworker relay
    execworker serve
    execworker exec -- 'echo hi; uname -a'

In an image, with the relay somewhere else:

    RELAY_ADDR=relay.example:8443 RELAY_TLS=1 SANDBOX_ID=sbx-7 SANDBOX_TOKEN_FILE=/run/secrets/token execworker serve

Every setting is a flag and a variable; "execworker COMMAND --help" lists them.`

const exitCodes = `
Exit codes:
  serve  0 after a drain (SIGTERM, SIGINT or SIGHUP), 1 could not run, 2 bad
         settings or usage, 130 ended at once by a second signal
  relay  0 after a signal, 1 could not listen, 2 bad settings or usage
  exec   that of the command; 124 timeout, 125 the relay or the worker could not
         run it, 130 aborted or ended by a signal, 2 bad settings or usage
  inflight, why, abort, execs, survivors, connections, status
         0, 1 the worker said no, 2 bad usage, 3 no worker answers
  health 0 ready, 1 not ready, 2 bad usage, 3 no worker answers
  demo   0 every step came out right, 1 one did not, 2 bad usage,
         130 ended by a signal
`

// exited is what --help and --version unwind the stack with: kong expects its
// exit function not to return.
type exited struct{}

// parse returns nothing when --help or --version was all that was asked.
func parse(parser *kong.Kong, args []string) (chosen *kong.Context, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exited:
			chosen, err = nil, nil
		default:
			panic(r)
		}
	}()
	for _, arg := range args {
		if !utf8.ValidString(arg) {
			return nil, fmt.Errorf("argument %q is not UTF-8", arg)
		}
	}
	return parser.Parse(args)
}

func newParser(all *commands, p *program) (*kong.Kong, error) {
	return kong.New(all,
		kong.Name("execworker"),
		kong.Description(description),
		kong.Vars{"version": version()},
		kong.Writers(p.stdout, p.stderr),
		kong.Exit(func(int) { panic(exited{}) }),
		kong.Bind(p),
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 100, NoExpandSubcommands: true, Compact: true, FlagsLast: true}),
		kong.ValueFormatter(settingHelp),
		kong.Help(printHelp),
	)
}

// settingHelp is the help of a flag with its variable and default behind it.
func settingHelp(v *kong.Value) string {
	var behind []string
	if len(v.Tag.Envs) > 0 {
		behind = append(behind, "$"+v.Tag.Envs[0])
	}
	if d := defaultOf(v); d != "" {
		behind = append(behind, "default "+d)
	}
	if len(behind) == 0 {
		return v.Help
	}
	return v.Help + " (" + strings.Join(behind, ", ") + ")"
}

func defaultOf(v *kong.Value) string {
	if v.HasDefault {
		return v.Default
	}
	return v.Tag.Get("default-shown")
}

// printHelp adds what kong does not know of: secrets, which have no flag, and
// exit codes.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	var secrets []string
	if chosen := ctx.Selected(); chosen != nil {
		for _, flag := range chosen.Flags {
			if isSecret(flag) {
				secrets = append(secrets, fmt.Sprintf("  %s\n      %s (default %s)\n", flag.Envs[0], flag.Help, defaultOf(flag.Value)))
			}
		}
	}
	if len(secrets) > 0 {
		fmt.Fprintf(ctx.Stdout, "\nFrom the environment only, since every process can read a command line:\n%s", strings.Join(secrets, ""))
	}
	_, err := fmt.Fprint(ctx.Stdout, exitCodes)
	return err
}

// isSecret says whether a flag exists for its variable alone.
func isSecret(flag *kong.Flag) bool { return flag.Hidden && len(flag.Envs) > 0 }

// refuseSecretFlags refuses a secret on the command line, where every process
// on the machine can read it, commands included.
func refuseSecretFlags(ctx *kong.Context) error {
	for _, el := range ctx.Path {
		if el.Flag != nil && isSecret(el.Flag) && !el.Resolved {
			return fmt.Errorf("--%s would show the secret to every process: set %s instead", el.Flag.Name, el.Flag.Envs[0])
		}
	}
	return nil
}

// version is that of the build: a tag, or a commit, or (devel).
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(devel)"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && info.Main.Version == "(devel)" {
			return "(devel) " + s.Value
		}
	}
	return info.Main.Version
}
