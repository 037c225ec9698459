package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// This file runs in the floor process: the least that a program can do to run a
// command and have its output.

// floorExec does tasks until its stdin ends.
func floorExec(stdin io.Reader, stdout io.Writer) error {
	in, out := json.NewDecoder(stdin), json.NewEncoder(stdout)
	for {
		var t task
		if err := in.Decode(&t); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := out.Encode(t.do()); err != nil {
			return err
		}
	}
}

// do has every caller run the command as often as it is told.
func (t task) do() done {
	once := runPlain
	if t.Kill {
		once = killPlain
	}
	var (
		d  = done{Took: make([]time.Duration, t.Callers*t.Times)}
		mu sync.Mutex // guards d.Error
		wg sync.WaitGroup
	)
	began, cpu := time.Now(), ownCPU()
	for caller := range t.Callers {
		wg.Go(func() {
			for i := range t.Times {
				took, err := once(t.Command)
				if err != nil {
					mu.Lock()
					d.Error = err.Error()
					mu.Unlock()
					return
				}
				d.Took[caller*t.Times+i] = took
			}
		})
	}
	wg.Wait()
	d.Wall, d.CPU = time.Since(began), ownCPU()-cpu
	return d
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails for a bad argument only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// runPlain is plain os/exec with two pipes read to their ends.
func runPlain(command string) (time.Duration, error) {
	began := time.Now()
	cmd := exec.Command("bash", "-c", command)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, stderr)
		read <- err
	}()
	_, err = io.Copy(io.Discard, stdout)
	if err := errors.Join(err, <-read, cmd.Wait()); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

// settle is what a command gets, after it has said that it runs, to become the
// program that it execs.
const settle = 5 * time.Millisecond

// killPlain times SIGKILL to the end of the wait.
func killPlain(command string) (time.Duration, error) {
	cmd := exec.Command("bash", "-c", command)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	if _, err := stdout.Read(make([]byte, 16)); err != nil {
		return 0, fmt.Errorf("wait for %q: %w", command, err)
	}
	time.Sleep(settle)
	began := time.Now()
	if err := cmd.Process.Kill(); err != nil {
		return 0, err
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) {
		return 0, fmt.Errorf("killed %q, and it ended with %v", command, err)
	}
	return time.Since(began), nil
}
