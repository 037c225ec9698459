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
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// exitNoWorker is a client's when nobody serves the admin API.
	exitNoWorker = 3
	// clientTime is for one answer; what is waited for comes on top.
	clientTime = 10 * time.Second
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
	probe   bool   // health is asked for, so that 503 is an answer
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
	text := fmt.Sprintf("no worker serves its admin API here (%s): start one, or name its socket with --admin-socket", strings.Join(reasons, "; "))
	if others := otherSockets(tried); c.AdminSocket == "" && len(others) > 0 {
		text += "\nworkers of other users may serve: " + strings.Join(others, ", ")
	}
	return nil, &exitError{code: exitNoWorker, err: errors.New(text)}
}

// otherSockets are those of workers that run as somebody else and have to use the
// temporary folder, where everybody can make a socket: so they are named to the
// person, and not asked.
func otherSockets(tried []string) (others []string) {
	all, _ := filepath.Glob(filepath.Join(os.TempDir(), socketFolder("*"), socketName)) // none for a bad pattern
	for _, path := range all {
		_, uid, _ := strings.Cut(filepath.Base(filepath.Dir(path)), socketFolder(""))
		if _, err := strconv.ParseUint(uid, 10, 32); err == nil && !slices.Contains(tried, path) {
			others = append(others, path)
		}
	}
	return others
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

// ask sends one request and returns the answer and its status. Anything but
// success is an error, mostly a *problem.
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
	if c.probe && answer.StatusCode == http.StatusServiceUnavailable && !isProblem(answer) {
		return text, answer.StatusCode, nil
	}
	return text, answer.StatusCode, problemOf(answer, text)
}

func isProblem(answer *http.Response) bool {
	return strings.HasPrefix(answer.Header.Get("Content-Type"), "application/problem+json")
}

// problemOf is what an answer says instead of what was asked for. net/http has
// problems of its own, which are bare text.
func problemOf(answer *http.Response, text []byte) error {
	if !isProblem(answer) {
		if answer.StatusCode >= 200 && answer.StatusCode < 300 {
			return nil
		}
		return fmt.Errorf("the worker said %s", answer.Status)
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
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("the worker does not answer in time")
	}
	return &exitError{code: exitNoWorker, err: fmt.Errorf("ask %s: %w", c.path, err)}
}

// show asks and prints.
func (c *client) show(method, path string, query url.Values, body any) error {
	text, _, err := c.ask(c.signals.first, method, path, query, body)
	if err != nil {
		return err
	}
	return c.written(c.print(text))
}
