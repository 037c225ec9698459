package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"
)

// slots is the worker's WORKER_MAX_CONCURRENT, and how many callers there are in
// the row that has several.
const slots = 16

// bench is what the rows measure with.
type bench struct {
	options
	dir     string // temporary; also where commands run
	relay   *relay
	worker  *worker
	floor   *floor
	starter *starter
	workers int // started so far
}

func newBench(ctx context.Context, o options) (_ *bench, err error) {
	// The relay's garbage must not be collected at the expense of a sample.
	debug.SetGCPercent(400)
	b := &bench{options: o, starter: newStarter()}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.dir, err = os.MkdirTemp("", "bench-"); err != nil {
		return b, err
	}
	if err := os.Chmod(b.dir, 0o777); err != nil { // for another user
		return b, err
	}
	if b.bin == "" {
		if b.bin, err = build(ctx, b.dir); err != nil {
			return b, err
		}
	}
	if b.relay, err = startRelay(); err != nil {
		return b, err
	}
	if b.floor, err = b.startFloor(); err != nil {
		return b, err
	}
	if b.worker, err = b.startWorker(ctx, "WORKER_MAX_CONCURRENT="+strconv.Itoa(slots)); err != nil {
		return b, err
	}
	return b, nil
}

// close ends whatever was started.
func (b *bench) close() error {
	var errs []error
	if b.worker != nil {
		errs = append(errs, b.worker.stop())
	}
	if b.floor != nil {
		errs = append(errs, b.floor.stop())
	}
	if b.relay != nil {
		b.relay.stop()
	}
	b.starter.close()
	if b.dir != "" {
		errs = append(errs, os.RemoveAll(b.dir))
	}
	return errors.Join(errs...)
}

func build(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "execworker")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", path, "execworker/cmd/execworker")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build execworker: %w\n%s", err, out)
	}
	return path, nil
}

// command is a program as the rows start it: in the directory and with the
// environment that worker and floors have in common, because what bash costs
// depends on both.
func (b *bench) command(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir = b.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "TMPDIR=" + b.dir}
	// Should the bench die without its clean-up, so do they.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if b.uid >= 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(b.uid), Gid: uint32(b.uid)}
	}
	return cmd
}

// worker is a started "execworker serve" with its session.
type worker struct {
	*session
	cmd       *exec.Cmd
	startedAt time.Time
	pids      []int  // its own processes, without those of its execs
	socket    string // of its admin API
}

// startWorker starts one and waits for its Hello.
func (b *bench) startWorker(ctx context.Context, env ...string) (*worker, error) {
	b.workers++
	dir := fmt.Sprintf("admin-%d", b.workers) // which the worker makes, for itself alone
	w := &worker{cmd: b.command(b.bin, "serve"), socket: filepath.Join(b.dir, dir, "admin.sock")}
	w.cmd.Env = append(w.cmd.Env,
		"RELAY_ADDR="+b.relay.addr, "SANDBOX_ID=bench", "SANDBOX_TOKEN=bench", "LOG_FORMAT=json",
		"WORKSPACE_ROOT="+filepath.Join(b.dir, "workspace"),
		"ADMIN_ADDR=127.0.0.1:0", "ADMIN_SOCKET="+w.socket)
	w.cmd.Env = append(append(w.cmd.Env, env...), b.env...)
	log, err := os.CreateTemp(b.dir, "worker-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	w.cmd.Stderr = log
	w.startedAt = time.Now()
	if err := b.starter.start(w.cmd); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	if w.session, err = b.relay.session(ctx); err != nil {
		text, _ := os.ReadFile(log.Name())
		return nil, errors.Join(fmt.Errorf("start worker: %w; its log:\n%s", err, text), w.stop())
	}
	w.pids = serving(w.cmd.Process.Pid)
	return w, nil
}

// stop drains it.
func (w *worker) stop() error { return stop(w.cmd, syscall.SIGTERM) }

func (w *worker) cpu() (time.Duration, error) { return cpuOf(w.pids...) }

// stop signals a process (0: it ends by itself), waits for it, and kills it if
// that takes too long.
func stop(cmd *exec.Cmd, sig syscall.Signal) error {
	if sig != 0 {
		_ = cmd.Process.Signal(sig)
	}
	kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("stop %s: %w", filepath.Base(cmd.Path), err)
	}
	return nil
}
