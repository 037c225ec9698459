package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"execworker/telemetry"
)

const (
	// exitNoWorker is a client's when nobody serves the admin API.
	exitNoWorker = 3
	// clientTime is for one answer; what is waited for comes on top.
	clientTime = 15 * time.Second
	// watchEvery is how often --watch draws.
	watchEvery = time.Second
	// answerMost is more than any list has, in bytes.
	answerMost = 64 << 20
)

// clientSettings are common to all clients of the admin API.
type clientSettings struct {
	socketSettings `group:"Where to ask:"`
	JSON           bool `name:"json" help:"Print the JSON of the API, which is stable, and not its text."`
}

// client asks the admin API of the worker in this sandbox, over its socket. It
// prints what it gets and makes nothing up.
type client struct {
	*program
	json bool
	http *http.Client
	path string // of the socket

	ifMatch string // the etag of the execution that is meant; empty: whichever
}

// client finds the worker.
func (c clientSettings) client(p *program) (*client, error) {
	if err := c.problem(); err != nil {
		return nil, usage(err)
	}
	tried := c.sockets()
	var reasons []string
	for _, path := range tried {
		conn, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			conn.Close()
			dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", path)
			}
			return &client{program: p, json: c.JSON, path: path, http: &http.Client{Transport: &http.Transport{DialContext: dial}}}, nil
		}
		reasons = append(reasons, fmt.Sprintf("%s: %s", path, dialProblem(err)))
	}
	return nil, &exitError{code: exitNoWorker, err: fmt.Errorf(
		"no worker serves its admin API here (%s): start one, or name its socket with --admin-socket", strings.Join(reasons, "; "))}
}

func dialProblem(err error) string {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return "there is no such socket"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nobody serves there any more"
	case errors.Is(err, syscall.EACCES):
		return "only its owner and root may connect"
	}
	return err.Error()
}

// problem is what the API says instead of an answer (RFC 9457).
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Hint   string `json:"hint"`
}

func (p *problem) Error() string {
	text := p.Title
	if p.Detail != "" {
		text += " " + p.Detail
	}
	if p.Hint != "" {
		text += "\n" + p.Hint
	}
	return text
}

// ask sends one request and returns the answer, or a *problem.
func (c *client) ask(ctx context.Context, method, path string, query url.Values, body any) ([]byte, int, error) {
	ctx, cancel := context.WithTimeout(ctx, clientTime+waitOf(query))
	defer cancel()
	r, err := c.request(ctx, method, path, query, body)
	if err != nil {
		return nil, 0, err
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, 0, c.broken(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, answerMost))
	if err != nil {
		return nil, 0, c.broken(err)
	}
	return text, answer.StatusCode, problemOf(answer, text)
}

// problemOf is the problem in an answer, if it is one.
func problemOf(answer *http.Response, text []byte) error {
	if !strings.HasPrefix(answer.Header.Get("Content-Type"), "application/problem+json") {
		return nil
	}
	no := new(problem)
	if err := json.Unmarshal(text, no); err != nil {
		return fmt.Errorf("the worker said %s, and why is unreadable: %w", answer.Status, err)
	}
	return no
}

func (c *client) request(ctx context.Context, method, path string, query url.Values, body any) (*http.Request, error) {
	if query == nil {
		query = url.Values{}
	}
	if query.Get("format") == "" {
		query.Set("format", map[bool]string{true: "json", false: "text"}[c.json])
	}
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost/admin/v1"+path+"?"+query.Encode(), content)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.ifMatch != "" {
		r.Header.Set("If-Match", c.ifMatch)
	}
	return r, nil
}

// waitOf is the time that the worker was asked to wait.
func waitOf(query url.Values) time.Duration {
	wait, _ := time.ParseDuration(query.Get("wait"))
	return wait
}

// broken is about a worker that went away, or a caller that did.
func (c *client) broken(err error) error {
	if c.signals.first.Err() != nil {
		return &exitError{code: exitSignal}
	}
	return &exitError{code: exitNoWorker, err: fmt.Errorf("ask %s: %w", c.path, err)}
}

// show asks and prints.
func (c *client) show(method, path string, query url.Values, body any) error {
	text, _, err := c.ask(c.signals.first, method, path, query, body)
	if err != nil {
		return err
	}
	return c.print(text)
}

// print writes an answer, made harmless where a terminal would obey it.
func (c *client) print(text []byte) error {
	out := telemetry.NewLineWriter(c.stdout)
	defer flushWithin(out)
	if c.json && !isTerminal(c.stdout) {
		_, err := out.Write(text)
		return err
	}
	for line := range strings.Lines(string(text)) {
		fmt.Fprintln(out, visibleLine(strings.TrimSuffix(line, "\n")))
	}
	return nil
}

// visibleLine is a line of any length that no terminal obeys.
func visibleLine(line string) string {
	const piece = 1 << 10
	var b strings.Builder
	for len(line) > piece {
		b.WriteString(telemetry.Visible(line[:piece]))
		line = line[piece:]
	}
	b.WriteString(telemetry.Visible(line))
	return b.String()
}

// watch shows the same again and again until a signal, which is a good end.
func (c *client) watch(path string, query url.Values) error {
	if c.json {
		return c.followEvents()
	}
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	onTerminal := isTerminal(c.stdout)
	for {
		text, _, err := c.ask(c.signals.first, http.MethodGet, path, query, nil)
		if c.signals.first.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if onTerminal {
			fmt.Fprint(c.stdout, "\x1b[H\x1b[2J")
		}
		if err := c.print(append([]byte(time.Now().Format(time.TimeOnly)+"\n"), text...)); err != nil {
			return err
		}
		if !onTerminal {
			fmt.Fprintln(c.stdout)
		}
		select {
		case <-ticker.C:
		case <-c.signals.first.Done():
			return nil
		}
	}
}

// followEvents prints the events of the worker as they come, one object a line.
func (c *client) followEvents() error {
	r, err := c.request(c.signals.first, http.MethodGet, "/events", url.Values{"format": {"ndjson"}}, nil)
	if err != nil {
		return err
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return c.broken(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, answerMost))
		return problemOf(answer, text)
	}
	_, err = io.Copy(c.stdout, answer.Body)
	if c.signals.first.Err() != nil {
		return nil
	}
	if err == nil {
		err = errors.New("the worker has ended the stream")
	}
	return c.broken(err)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
