package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"execworker/telemetry"
)

// watchEvery is how often --watch draws.
const watchEvery = time.Second

// print writes an answer, made harmless where a terminal would obey it. A reader
// that takes his time, as less does, is waited for.
func (c *client) print(text []byte) error {
	out := patient{c.stdout, c.signals.first}
	if c.json && !isTerminal(c.stdout) {
		_, err := out.Write(text)
		return err
	}
	var shown strings.Builder
	for line := range strings.Lines(string(text)) {
		shown.WriteString(visibleLine(strings.TrimSuffix(line, "\n")) + "\n")
	}
	_, err := io.WriteString(out, shown.String())
	return err
}

// patient writes for as long as the reader takes, or until a context ends.
type patient struct {
	to    io.Writer
	until context.Context
}

// Write leaves p to a goroutine that may be blocked when it returns with the
// cause of the context. The caller is not to change p then.
func (w patient) Write(p []byte) (int, error) {
	if err := context.Cause(w.until); err != nil {
		return 0, err
	}
	type result struct {
		n   int
		err error
	}
	wrote := make(chan result, 1)
	go func() {
		n, err := writeAll(w.to, p)
		wrote <- result{n, err}
	}()
	select {
	case r := <-wrote:
		return r.n, r.err
	case <-w.until.Done():
		return 0, context.Cause(w.until)
	}
}

// writeAll goes on where somebody who shares the pipe or terminal has made it
// non-blocking.
func writeAll(to io.Writer, p []byte) (n int, err error) {
	for n < len(p) {
		var wrote int
		wrote, err = to.Write(p[n:])
		n += wrote
		switch {
		case errors.Is(err, syscall.EAGAIN):
			time.Sleep(10 * time.Millisecond)
		case err != nil:
			return n, err
		}
	}
	return n, nil
}

// written is how a client ends after a write. That a reader has seen enough, as
// head has, is no failure.
func (c *client) written(err error) error {
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE):
		return nil
	case c.signals.first.Err() != nil:
		return &exitError{code: exitSignal}
	}
	return fmt.Errorf("write: %w", err)
}

// visibleLine is a line of any length that no terminal obeys.
func visibleLine(line string) string {
	const piece = 1 << 10
	var b strings.Builder
	for len(line) > piece {
		cut := piece
		for cut > piece-utf8.UTFMax && !utf8.RuneStart(line[cut]) {
			cut--
		}
		b.WriteString(telemetry.Visible(line[:cut]))
		line = line[cut:]
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
	clear, space := "", "\n"
	if isTerminal(c.stdout) {
		clear, space = "\x1b[H\x1b[2J", ""
	}
	out := patient{c.stdout, c.signals.first}
	for {
		text, _, err := c.ask(c.signals.first, http.MethodGet, path, query, nil)
		if err != nil {
			return c.unlessSignal(err)
		}
		_, err = io.WriteString(out, clear)
		if err == nil {
			err = c.print(fmt.Appendf(nil, "%s\n%s%s", time.Now().Format(time.TimeOnly), text, space))
		}
		if err != nil {
			return c.unlessSignal(c.written(err))
		}
		select {
		case <-ticker.C:
		case <-c.signals.first.Done():
			return nil
		}
	}
}

// unlessSignal is err, or nil after a signal, whatever it has broken.
func (c *client) unlessSignal(err error) error {
	if c.signals.first.Err() != nil {
		return nil
	}
	return err
}

// followEvents prints the events of the worker as they come, one object a line.
func (c *client) followEvents() error {
	r, err := c.request(c.signals.first, http.MethodGet, "/events", url.Values{"format": {"ndjson"}}, nil)
	if err != nil {
		return err
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return c.unlessSignal(c.broken(err))
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, answerMost))
		return problemOf(answer, text)
	}
	lines := bufio.NewReader(answer.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if err := c.print(line); err != nil {
				return c.unlessSignal(c.written(err))
			}
		}
		if err == io.EOF {
			err = errors.New("the worker has ended the stream")
		}
		if err != nil {
			return c.unlessSignal(c.broken(err))
		}
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
