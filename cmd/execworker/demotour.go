package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"execworker/daemon/devrelay"
	sandboxv1 "execworker/proto/sandbox/v1"
	"execworker/telemetry"
)

// stepTime is the longest that one step may take.
const stepTime = 30 * time.Second

// tour sends execs through a relay, step by step, and keeps what came of it.
type tour struct {
	caller   caller
	relay    *devrelay.Relay
	attached <-chan struct{} // one token for each worker that attached
	dir      string          // for files, removed after the tour
	nonce    string          // in names and texts, so that no answer can be made up
	say      func(format string, args ...any)

	lastID uint64
	rows   []row
}

// step is one thing that the tour shows.
type step struct {
	name  string
	asked string // in words
	// run does it, and says in words what came back and what is wrong with it.
	run func(ctx context.Context, t *tour) (back string, wrong error)
}

// row is the line of a step in the closing table.
type row struct {
	step  step
	back  string
	wrong error
	took  time.Duration
}

// run takes all steps, prints the table and returns the names of those that did
// not come out right.
func (t *tour) run(ctx context.Context, steps []step) (wrong []string) {
	for i, s := range steps {
		t.say("\n%d. %s: %s", i+1, s.name, s.asked)
		start := time.Now()
		back, err := t.step(ctx, s)
		r := row{step: s, back: back, wrong: err, took: time.Since(start)}
		t.rows = append(t.rows, r)
		if err != nil {
			wrong = append(wrong, s.name)
			t.say("   FAILED: %s", telemetry.Visible(err.Error()))
			continue
		}
		t.say("   ok: %s", telemetry.Visible(back))
	}
	t.say("\n%s", table(t.rows))
	if len(wrong) == 0 {
		t.say("All %d steps came out right.", len(steps))
	} else {
		t.say("%d of %d steps FAILED: %s", len(wrong), len(steps), strings.Join(wrong, ", "))
	}
	return wrong
}

func (t *tour) step(ctx context.Context, s step) (back string, wrong error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stepTime, fmt.Errorf("no answer within %s", stepTime))
	defer cancel()
	back, wrong = s.run(ctx, t)
	if wrong != nil && ctx.Err() != nil {
		wrong = fmt.Errorf("%w (%w)", context.Cause(ctx), wrong)
	}
	return back, wrong
}

// table shows what was asked, what came back and what to think of it.
func table(rows []row) string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STEP\tASKED\tCAME BACK\tVERDICT\tTIME")
	for _, r := range rows {
		back, verdict := r.back, "ok"
		if r.wrong != nil {
			back, verdict = r.wrong.Error(), "FAILED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d ms\n", r.step.name, short(r.step.asked, 40), short(back, 64), verdict, r.took.Milliseconds())
	}
	w.Flush() // a Buffer takes everything
	return b.String()
}

// waitAttached waits for the next worker to attach.
func (t *tour) waitAttached(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, demoAttach, fmt.Errorf("it did not within %s", demoAttach))
	defer cancel()
	select {
	case <-t.attached:
		_, err := t.relay.Wait(ctx, demoID)
		return err
	case <-ctx.Done():
		return fmt.Errorf("wait for the worker to attach: %w", context.Cause(ctx))
	}
}

// answer is everything that came back for one exec.
type answer struct {
	stdout, stderr []byte
	end            *sandboxv1.End
	failure        *sandboxv1.ExecError
	took           time.Duration
}

// running is an exec that has been sent.
type running struct {
	id      uint64
	began   chan struct{} // closed at its first output
	done    chan struct{} // closed when answer and err are there
	answer  answer
	failure error // of the relay or the link
}

// start sends x under a number of its own, unless it has one, and waits for nothing.
func (t *tour) start(ctx context.Context, x *sandboxv1.Exec) *running {
	if x.ReqId == 0 {
		t.lastID++
		x.ReqId = t.lastID
	}
	x.Streaming = true
	r := &running{id: x.ReqId, began: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		start := time.Now()
		began := false
		r.answer.end, r.answer.failure, r.failure = t.caller.exec(ctx, x, func(c *sandboxv1.Chunk) {
			if !began {
				began = true
				close(r.began)
			}
			if c.GetStream() == sandboxv1.Stream_STREAM_STDERR {
				r.answer.stderr = append(r.answer.stderr, c.GetData()...)
			} else {
				r.answer.stdout = append(r.answer.stdout, c.GetData()...)
			}
		})
		r.answer.took = time.Since(start)
	}()
	return r
}

// wait returns the answer.
func (r *running) wait() (answer, error) {
	<-r.done // ends at the latest with the context that start was given
	return r.answer, r.failure
}

// waitBegan returns when the command has written something, with an error if it
// never did.
func (r *running) waitBegan() error {
	select {
	case <-r.began:
		return nil
	case <-r.done:
		if r.failure != nil {
			return r.failure
		}
		return fmt.Errorf("it ended before it began: %s", r.answer)
	}
}

// exec sends x and returns the answer.
func (t *tour) exec(ctx context.Context, x *sandboxv1.Exec) (answer, error) {
	return t.start(ctx, x).wait()
}

// String says the answer in words.
func (a answer) String() string {
	var words []string
	switch {
	case a.end != nil:
		words = append(words, fmt.Sprintf("exit code %d", a.end.GetExitCode()))
	case a.failure != nil:
		words = append(words, "ExecError "+quoted(a.failure.GetMessage()))
	}
	if len(a.stdout) > 0 {
		words = append(words, "stdout "+quoted(string(a.stdout)))
	}
	if len(a.stderr) > 0 {
		words = append(words, "stderr "+quoted(string(a.stderr)))
	}
	return strings.Join(words, ", ")
}

// want says what is wrong if the answer is not an End with this code, stdout and
// stderr.
func (a answer) want(code int32, stdout, stderr string) error {
	if a.end == nil || a.end.GetExitCode() != code || string(a.stdout) != stdout || string(a.stderr) != stderr {
		return errors.New(a.String())
	}
	return nil
}
