package main

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// inflightCommand lists what has not ended.
type inflightCommand struct {
	clientSettings
	State  string        `placeholder:"WORD" help:"Only these: waiting, queued, spawning, running, draining or killing."`
	MinAge time.Duration `placeholder:"TIME" help:"Only those that came so long ago."`
	Sort   string        `placeholder:"WORD" help:"By age, idle or bytes."`
	Limit  int           `placeholder:"N" help:"At most so many."`
	Watch  bool          `help:"Show it again each second. With --json: follow the events."`
}

// Run asks once, or again and again.
func (c *inflightCommand) Run(p *program) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	query := values("state", c.State, "min_age", spanText(c.MinAge), "sort", c.Sort, "limit", numberText(c.Limit))
	if c.Watch {
		return client.watch("/inflight", query)
	}
	return client.show(http.MethodGet, "/inflight", query, nil)
}

// execsCommand lists receipts.
type execsCommand struct {
	clientSettings
	Outcome string `placeholder:"WORD" help:"Only these: exit, signal, timeout, abort, spawn_error, refused, stream_lost, drained or uncontained."`
	MinMS   int    `name:"min-ms" placeholder:"N" help:"Only those that took so many milliseconds."`
	Since   string `placeholder:"TIME" help:"Only those that ended since then: a time, or an age such as 5m."`
	Limit   int    `placeholder:"N" help:"At most so many."`
}

// Run asks.
func (c *execsCommand) Run(p *program) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	query := values("outcome", c.Outcome, "min_ms", numberText(c.MinMS), "since", c.Since, "limit", numberText(c.Limit))
	return client.show(http.MethodGet, "/execs", query, nil)
}

// whyCommand tells all about one exec.
type whyCommand struct {
	clientSettings
	ReqID string `arg:"" name:"req_id" help:"The exec."`
}

// Run asks for it in flight, then for what it left, then for its receipt.
func (c *whyCommand) Run(p *program) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	id := url.PathEscape(c.ReqID)
	for _, path := range []string{"/inflight/" + id, "/survivors/" + id, "/execs/" + id} {
		err = client.show(http.MethodGet, path, nil, nil)
		if no, ok := errors.AsType[*problem](err); !ok || no.Status != http.StatusNotFound {
			return err
		}
	}
	return err
}

// abortCommand stops an exec.
type abortCommand struct {
	clientSettings
	ReqID     string        `arg:"" name:"req_id" help:"The exec."`
	Reason    string        `placeholder:"TEXT" help:"Why; kept in the receipt."`
	Wait      time.Duration `default:"5s" placeholder:"TIME" help:"How long to wait for its end. 0: not at all."`
	IfMatch   string        `placeholder:"ETAG" help:"Only if it is this execution."`
	Survivors bool          `help:"End what it left running when it ended."`
}

// Run asks for the abort.
func (c *abortCommand) Run(p *program) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	client.ifMatch = c.IfMatch
	path := "/inflight/" + url.PathEscape(c.ReqID) + "/abort"
	if c.Survivors {
		path = "/survivors/" + url.PathEscape(c.ReqID) + "/abort"
	}
	var body any
	if c.Reason != "" {
		body = map[string]string{"reason": c.Reason}
	}
	return client.show(http.MethodPost, path, values("wait", spanText(c.Wait)), body)
}

// statusCommand is about the worker as a whole.
type statusCommand struct{ clientSettings }

// Run asks.
func (c *statusCommand) Run(p *program) error { return c.show(p, "/status") }

// survivorsCommand lists what commands left running.
type survivorsCommand struct{ clientSettings }

// Run asks.
func (c *survivorsCommand) Run(p *program) error { return c.show(p, "/survivors") }

// connectionsCommand lists attempts and sessions.
type connectionsCommand struct{ clientSettings }

// Run asks.
func (c *connectionsCommand) Run(p *program) error { return c.show(p, "/connections") }

func (c clientSettings) show(p *program, path string) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	return client.show(http.MethodGet, path, nil, nil)
}

// healthCommand is for probes that run a command.
type healthCommand struct {
	clientSettings
	Live bool `help:"Ask whether it is alive, not whether it is ready."`
}

// Run prints what the worker says, and fails if that is not ok.
func (c *healthCommand) Run(p *program) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	client.probe = true
	path := "/readyz"
	if c.Live {
		path = "/livez"
	}
	text, status, err := client.ask(p.signals.first, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	_ = client.print(text) // the exit code is the answer
	if status != http.StatusOK {
		return &exitError{code: exitFailed}
	}
	return nil
}

// values makes parameters of names and values in turn; empty ones are left out.
func values(pairs ...string) url.Values {
	all := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			all.Set(pairs[i], pairs[i+1])
		}
	}
	return all
}

func spanText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func numberText(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
