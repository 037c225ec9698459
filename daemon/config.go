package daemon

import (
	"errors"
	"fmt"
	"net/url"
	"time"
	"unicode/utf8"

	"execworker/daemon/observe"
)

// Config is what a Daemon needs. Fields without a default are required.
type Config struct {
	Relay Relay

	SandboxID string
	Image     string            // of the sandbox; may be empty
	Trust     string            // sent in Hello
	Labels    map[string]string // sent in Hello; may be nil

	Slots int // execs that run at once; at least 1

	WorkspaceRoot string        // holds one directory for each workspace_key
	WorkspaceIdle time.Duration // after which an unused one is removed; 0 keeps them for ever

	Drain          time.Duration // that running execs get when the daemon is told to stop
	SweepSurvivors bool          // do not keep what a command leaves running
	Nice           int           // of every command; 0 to 19

	// HashOutput puts the SHA-256 of each stream into receipts. It costs about a
	// third of a stream's CPU.
	HashOutput bool

	Env []string // the whole environment of every command

	Observer observe.Observer // told of everything; may be nil
}

// Relay says where the relay is and how to get in.
type Relay struct {
	Addr string // host:port

	TLS      bool
	CAFile   string // PEM, added to the system's roots; may be empty
	CertFile string // PEM, with KeyFile, for mutual TLS; may be empty
	KeyFile  string

	// Token is asked at every dial, so that a token can be rotated.
	Token func() (string, error)

	// Proxy names the HTTP proxy for a URL, or nil for none; it may be nil.
	Proxy func(*url.URL) (*url.URL, error)
}

// validate refuses what New's caller should have refused already.
func (c Config) validate() error {
	switch {
	case c.Relay.Addr == "" || c.Relay.Token == nil:
		return errors.New("config: no relay")
	case c.SandboxID == "":
		return errors.New("config: no sandbox id")
	case c.Slots < 1:
		return fmt.Errorf("config: %d slots", c.Slots)
	case c.WorkspaceRoot == "":
		return errors.New("config: no workspace root")
	}
	hello := []string{c.SandboxID, c.Image, c.Trust}
	for k, v := range c.Labels {
		hello = append(hello, k, v)
	}
	for _, s := range hello {
		if !utf8.ValidString(s) { // no Hello could ever be sent
			return fmt.Errorf("config: %q is not UTF-8", s)
		}
	}
	return nil
}
