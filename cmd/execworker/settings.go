package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Settings come from flags or from the environment, flags first. They stand in
// groups; a command has the groups that mean something to it. A field that holds
// a secret is hidden: it has no flag, because a command line can be read by
// every process (see refuseSecretFlags).
//
// A variable that is set but empty counts as not set, so that a template with
// nothing to put in gives the default. Where the default would hide a mistake,
// an empty variable is refused: those fields are tagged empty:"refused".

// devToken is the token when none is set: good for a laptop, warned about elsewhere.
const devToken = "dev-token"

// linkSettings say how to reach a relay.
type linkSettings struct {
	RelayAddr     string     `env:"RELAY_ADDR" default:"localhost:8443" empty:"refused" placeholder:"HOST:PORT" help:"The relay."`
	RelayTLS      strictBool `name:"relay-tls" env:"RELAY_TLS" default:"0" empty:"refused" help:"Speak TLS to the relay: 0, 1, true or false."`
	RelayCAFile   string     `name:"relay-ca-file" env:"RELAY_CA_FILE" placeholder:"FILE" help:"PEM certificates to trust beside the system's. Needs TLS."`
	RelayCertFile string     `env:"RELAY_CERT_FILE" placeholder:"FILE" help:"PEM certificate to show to the relay (mutual TLS). Needs its key and TLS."`
	RelayKeyFile  string     `env:"RELAY_KEY_FILE" placeholder:"FILE" help:"PEM key of that certificate."`
}

// tokenSettings are the worker's secret.
type tokenSettings struct {
	SandboxToken     string `env:"SANDBOX_TOKEN" empty:"refused" hidden:"" default-shown:"dev-token" help:"Token that the relay knows the worker by."`
	SandboxTokenFile string `env:"SANDBOX_TOKEN_FILE" empty:"refused" placeholder:"FILE" help:"File that holds the token, instead of SANDBOX_TOKEN. Read again at every dial, so that it can be rotated."`
}

// execTokenSettings are the callers' secret.
type execTokenSettings struct {
	RelayExecToken string `env:"RELAY_EXEC_TOKEN" hidden:"" default-shown:"the token of the worker" help:"Token that the relay knows callers by."`
}

// sandboxSettings name the sandbox.
type sandboxSettings struct {
	SandboxID string `name:"sandbox-id" env:"SANDBOX_ID" default:"sbx-laptop-1" empty:"refused" placeholder:"ID" help:"Name of the sandbox at the relay."`
}

// workerSettings are those of the daemon alone.
type workerSettings struct {
	SandboxImage        string `env:"SANDBOX_IMAGE" placeholder:"NAME" help:"Image of the sandbox, told to the relay."`
	SandboxTrust        string `env:"SANDBOX_TRUST" default:"untrusted" placeholder:"WORD" help:"Trust level of the sandbox, told to the relay."`
	WorkerMaxConcurrent number `env:"WORKER_MAX_CONCURRENT" default:"4" placeholder:"N" help:"Commands that run at once, 1 to 4096. 64 more can wait."`
	WorkerLabels        labels `env:"WORKER_LABELS" placeholder:"K=V,K=V" help:"Labels told to the relay."`
	WorkspaceRoot       string `env:"WORKSPACE_ROOT" default:"/workspace" placeholder:"DIR" help:"Where a workspace_key gets its directory. Used with a workspace_key only."`
	WorkspaceIdle       span   `env:"WORKSPACE_IDLE" default:"30m" placeholder:"TIME" help:"How long an unused one of them is kept. 0: for ever."`
	ExecworkerDrain     span   `env:"EXECWORKER_DRAIN" default:"10s" placeholder:"TIME" help:"How long running commands may go on after a signal to stop."`
	ExecworkerSurvivors string `env:"EXECWORKER_SURVIVORS" default:"keep" placeholder:"WORD" help:"What becomes of processes that a command leaves behind when it ends by itself: keep or sweep."`
	ExecworkerNice      number `env:"EXECWORKER_NICE" default:"10" placeholder:"N" help:"Niceness of commands, 0 to 19."`

	ExecworkerOutputHash strictBool `env:"EXECWORKER_OUTPUT_HASH" default:"0" help:"Put the SHA-256 of stdout and of stderr into the record of each exec: 0, 1, true or false. It costs a third of a stream's CPU."`
}

// logSettings are those of the log, which goes to stderr.
type logSettings struct {
	LogLevel  string `env:"LOG_LEVEL" default:"info" placeholder:"WORD" help:"debug, info, warn or error. debug shows command text, cut and without what looks like a secret."`
	LogFormat string `env:"LOG_FORMAT" default:"auto" placeholder:"WORD" help:"text, json, or auto: text on a terminal, JSON elsewhere."`
}

// listenSettings are those of the development relay.
type listenSettings struct {
	RelayListen string `env:"RELAY_LISTEN" default:"127.0.0.1:8443" empty:"refused" placeholder:"HOST:PORT" help:"Where to listen. Port 0 takes a free one."`
}

// strictBool is a boolean that takes no near misses: a value that somebody meant
// as "on" must not leave TLS off.
type strictBool bool

var _ kong.BoolMapperValue = (*strictBool)(nil)

// IsBool lets the flag stand without a value.
func (b *strictBool) IsBool() bool { return true }

// Decode takes 0, 1, true and false.
func (b *strictBool) Decode(ctx *kong.DecodeContext) error {
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		*b = true
		return nil
	}
	switch given := ctx.Scan.Pop().String(); given {
	case "1", "true":
		*b = true
	case "0", "false":
		*b = false
	default:
		return fmt.Errorf("want 0, 1, true or false, not %q", given)
	}
	return nil
}

// number is a whole number in plain decimal: 010, 0x10 and 1_000 mean different
// things to different people.
type number int

// UnmarshalText takes digits, and a minus sign so that the range can be told.
func (n *number) UnmarshalText(text []byte) error {
	v, err := strconv.Atoi(string(text))
	if err != nil || strconv.Itoa(v) != string(text) {
		return fmt.Errorf("want a whole number in plain decimal, such as 4, not %q", text)
	}
	*n = number(v)
	return nil
}

// span is a length of time. A bare number is seconds, as people type it.
type span time.Duration

func (s span) String() string { return time.Duration(s).String() }

// UnmarshalText takes what time.ParseDuration takes, and whole seconds.
func (s *span) UnmarshalText(text []byte) (err error) {
	*s, err = parseSpan(string(text), int64(math.MaxInt64/time.Second))
	return err
}

// timeout is a span that fits the wire, which has 32 bits of seconds.
type timeout span

func (t timeout) String() string { return span(t).String() }

// UnmarshalText takes what span takes, up to the limit of the wire.
func (t *timeout) UnmarshalText(text []byte) error {
	s, err := parseSpan(string(text), math.MaxUint32)
	*t = timeout(s)
	return err
}

// parseSpan takes no more than most seconds.
func parseSpan(given string, most int64) (span, error) {
	tooLong := fmt.Errorf("want at most %d seconds, not %q", most, given)
	text := given
	n, err := strconv.ParseUint(given, 10, 64)
	switch {
	case err == nil && n > uint64(most) || errors.Is(err, strconv.ErrRange):
		return 0, tooLong
	case err == nil:
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("want a time such as 90s, 5m or a number of seconds, not %q", given)
	}
	if d > time.Duration(most)*time.Second {
		return 0, tooLong
	}
	return span(d), nil
}

// labels are k=v,k2=v2.
type labels map[string]string

// String is what UnmarshalText takes, in the order of the keys.
func (l labels) String() string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(l)) {
		pairs = append(pairs, key+"="+l[key])
	}
	return strings.Join(pairs, ",")
}

// UnmarshalText refuses what has no =, an empty key and a key given twice.
func (l *labels) UnmarshalText(text []byte) error {
	*l = labels{}
	if len(text) == 0 {
		return nil
	}
	for pair := range strings.SplitSeq(string(text), ",") {
		key, value, ok := strings.Cut(pair, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || key == "" {
			return fmt.Errorf("want k=v,k2=v2, not %q", pair)
		}
		if _, twice := (*l)[key]; twice {
			return fmt.Errorf("the label %q is there twice", key)
		}
		(*l)[key] = value
	}
	return nil
}
