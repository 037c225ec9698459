package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// floor is a running "bench floor-exec", asked over its stdin. It is for one
// goroutine at a time.
type floor struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	ask *json.Encoder
	out *json.Decoder
}

// task is what a floor is asked to do.
type task struct {
	Kill    bool // start the command, wait for its first output, and time SIGKILL-to-wait
	Command string
	Times   int // for each of the callers
	Callers int
}

// done is its answer.
type done struct {
	Took  []time.Duration
	Wall  time.Duration
	CPU   time.Duration // its own
	Error string
}

func (b *bench) startFloor() (*floor, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// Where go run has put the bench another user may not look.
	path := b.dir + "/bench"
	if err := copyFile(path, self); err != nil {
		return nil, fmt.Errorf("start floor: %w", err)
	}
	f := &floor{cmd: b.command(path, "floor-exec")}
	f.cmd.Stderr = os.Stderr
	if f.in, err = f.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	f.ask, f.out = json.NewEncoder(f.in), json.NewDecoder(out)
	if err := b.starter.start(f.cmd); err != nil {
		return nil, fmt.Errorf("start floor: %w", err)
	}
	return f, nil
}

// do has a task done.
func (f *floor) do(t task) (done, error) {
	var d done
	if err := f.ask.Encode(t); err != nil {
		return d, fmt.Errorf("floor: %w", err)
	}
	if err := f.out.Decode(&d); err != nil {
		return d, fmt.Errorf("floor: %w", err)
	}
	if d.Error != "" {
		return d, errors.New("floor: " + d.Error)
	}
	return d, nil
}

func (f *floor) stop() error {
	_ = f.in.Close() // it ends
	return stop(f.cmd, 0)
}

func copyFile(to, from string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(dst, src); err != nil {
		dst.Close()
		return err
	}
	return dst.Close()
}

// sender is a running "bench floor-stream": it attaches to the relay as a worker
// does, and answers an Exec with zeros or with what plain os/exec makes of it.
type sender struct {
	*session
	cmd *exec.Cmd
	in  io.Closer
}

func (b *bench) startSender(ctx context.Context) (*sender, error) {
	s := &sender{cmd: b.command(b.dir+"/bench", "floor-stream", b.relay.addr)}
	s.cmd.Stderr = os.Stderr
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := b.starter.start(s.cmd); err != nil {
		return nil, fmt.Errorf("start sender: %w", err)
	}
	if s.session, err = b.relay.session(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start sender: %w", err), s.stop())
	}
	return s, nil
}

// stop ends it by the end of its stdin.
func (s *sender) stop() error {
	_ = s.in.Close()
	return stop(s.cmd, 0)
}
