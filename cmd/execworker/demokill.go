package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	sandboxv1 "execworker/proto/sandbox/v1"
)

// stepAbort aborts in the middle of the stream.
func stepAbort(ctx context.Context, t *tour) (string, error) {
	name := "abort-" + t.nonce
	r := t.start(ctx, &sandboxv1.Exec{Command: "echo started; exec -a " + name + " sleep 300"})
	if err := r.waitBegan(); err != nil {
		return "", err
	}
	if _, err := waitProcesses(ctx, name, 1); err != nil {
		return "", err
	}
	a, took, err := t.abort(ctx, r)
	if err != nil {
		return "", err
	}
	if err := a.want(-1, "started\n", ""); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, after %s, nothing left", a, took), nothingLeft(name)
}

// stepTimeout outlives its time.
func stepTimeout(ctx context.Context, t *tour) (string, error) {
	name := "timeout-" + t.nonce
	a, err := t.exec(ctx, &sandboxv1.Exec{Command: "echo started; exec -a " + name + " sleep 300", TimeoutS: 1})
	if err != nil {
		return "", err
	}
	if a.failure.GetMessage() != "timeout:1" || string(a.stdout) != "started\n" || len(a.stderr) > 0 {
		return "", errors.New(a.String())
	}
	if a.took < time.Second || a.took > 4*time.Second {
		return "", fmt.Errorf("%s, but after %s", a, a.took.Round(time.Millisecond))
	}
	return fmt.Sprintf("%s, nothing left", a), nothingLeft(name)
}

// stepReconnect sends one exec twice, with a lost stream between, and looks in a
// file how often it ran.
func stepReconnect(ctx context.Context, t *tour) (string, error) {
	path := filepath.Join(t.dir, "ran-"+t.nonce)
	exec := func() *sandboxv1.Exec {
		return &sandboxv1.Exec{ReqId: 1_000_000, Command: "echo ran >> " + shellQuote(path) + "; echo done"}
	}
	first, err := t.exec(ctx, exec())
	if err != nil {
		return "", err
	}
	if err := first.want(0, "done\n", ""); err != nil {
		return "", err
	}
	if !t.relay.Drop(demoID) {
		return "", errors.New("there was no stream to drop")
	}
	if err := t.waitAttached(ctx); err != nil {
		return "", err
	}
	again, err := t.exec(ctx, exec())
	if err != nil {
		return "", err
	}
	if err := again.want(0, "", ""); err != nil { // a replay brings no output
		return "", fmt.Errorf("the second time: %w", err)
	}
	ran, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := bytes.Count(ran, []byte("ran\n")); n != 1 {
		return "", fmt.Errorf("the file says that it ran %d times", n)
	}
	return fmt.Sprintf("%s, then %s, ran once", first, again), nil
}

// stepEscape starts processes that leave their session, their group and their
// parent, and aborts the command that did it.
func stepEscape(ctx context.Context, t *tour) (string, error) {
	name := "escape-" + t.nonce
	r := t.start(ctx, &sandboxv1.Exec{Command: strings.ReplaceAll(`
setsid bash -c 'exec -a NAME sleep 300' < /dev/null > /dev/null 2>&1 &
( ( exec -a NAME sleep 300 ) & ) &
setsid bash -c '( setsid bash -c "( exec -a NAME sleep 300 ) &" & )' &
echo started
sleep 300`, "NAME", name)})
	if err := r.waitBegan(); err != nil {
		return "", err
	}
	escaped, err := waitProcesses(ctx, name, 3)
	if err != nil {
		a, _, abortErr := t.abort(ctx, r)
		return "", errors.Join(fmt.Errorf("%w: %s", err, a), abortErr)
	}
	a, took, err := t.abort(ctx, r)
	if err != nil {
		return "", err
	}
	if a.end == nil || a.end.GetExitCode() != -1 {
		return "", errors.New(a.String())
	}
	return fmt.Sprintf("exit code %d after %s; %d got away, none is left",
		a.end.GetExitCode(), took, len(escaped)), nothingLeft(name)
}

// abort aborts r and returns its answer and how long that took.
func (t *tour) abort(ctx context.Context, r *running) (answer, time.Duration, error) {
	start := time.Now()
	if err := t.caller.abort(ctx, r.id); err != nil {
		return answer{}, 0, err
	}
	a, err := r.wait()
	return a, time.Since(start).Round(time.Millisecond), err
}

// nothingLeft looks for processes that should be gone. The frame comes after the
// proof, so there is nothing to wait for.
func nothingLeft(name string) error {
	left, err := processesNamed(name)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("processes %v are still there", left)
	}
	return err
}

// waitProcesses waits until n processes call themselves name.
func waitProcesses(ctx context.Context, name string, n int) ([]int, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		found, err := processesNamed(name)
		if err != nil || len(found) >= n {
			return found, err
		}
		select {
		case <-time.After(5 * time.Millisecond): // the kernel tells nobody
		case <-ctx.Done():
			return nil, fmt.Errorf("only %d of %d processes came to be", len(found), n)
		}
	}
}

// processesNamed returns the processes, as the kernel lists them, whose first
// argument is name.
func processesNamed(name string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		args, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && bytes.HasPrefix(args, append([]byte(name), 0)) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
