package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// unreadPipe is a pipe that is full already, so that the first byte blocks.
func unreadPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	fill(t, fds[1])
	r, w = os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	t.Cleanup(func() { r.Close() })
	return r, w
}

// unreadTerminal is a terminal whose other side reads nothing.
func unreadTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, slave = newTerminal(t)
	fill(t, int(slave.Fd()))
	return master, slave
}

// newTerminal is a terminal and its other side. The slave is the caller's to close.
func newTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here: ", err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skip("no terminals here: ", err)
	}
	return master, slave
}

// fill writes until nothing more fits, and then makes fd block.
func fill(t *testing.T, fd int) {
	t.Helper()
	for size := 4096; size > 0; {
		_, err := unix.Write(fd, make([]byte, size))
		if errors.Is(err, unix.EAGAIN) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
}

// gate is a FIFO. wait returns when a command has written to it.
type gate string

func newGate(t *testing.T) gate {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return gate(path)
}

func (g gate) wait(t *testing.T) {
	t.Helper()
	if _, err := os.ReadFile(string(g)); err != nil {
		t.Fatal(err)
	}
}

// outputs of an exec that nobody reads.
var unread = map[string]func(*testing.T, *exec.Cmd){
	"pipe": func(t *testing.T, c *exec.Cmd) {
		_, w := unreadPipe(t)
		t.Cleanup(func() { w.Close() })
		c.Stdout = w
	},
	"terminal": func(t *testing.T, c *exec.Cmd) {
		_, slave := unreadTerminal(t)
		t.Cleanup(func() { slave.Close() })
		c.Stdout, c.Stderr = slave, slave
	},
}

func TestInterruptEndsExecThatNobodyReads(t *testing.T) {
	commands := map[string]string{
		"word":  "echo x; echo > %[1]s; exec -a %[2]s sleep 300",
		"flood": "echo > %[1]s; exec -a %[2]s yes",
	}
	for where, to := range unread {
		for what, command := range commands {
			t.Run(what+" to a "+where, func(t *testing.T) {
				t.Parallel()
				l, g, name := startLink(t), newGate(t), processName("TestUnread-"+what+"-"+where)
				s := start(t, l.variables, func(c *exec.Cmd) { to(t, c) }, "exec", "--", fmt.Sprintf(command, g, name))
				g.wait(t)
				s.signal(t, syscall.SIGINT)
				s.wantCode(t, exitSignal)
				if err := nothingLeft(name); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// Nor does the time that the worker takes to answer matter then.
func TestInterruptEndsExecThatNobodyReadsOrAnswers(t *testing.T) {
	for _, signals := range [][]syscall.Signal{{syscall.SIGINT}, {syscall.SIGINT, syscall.SIGTERM}} {
		t.Run(fmt.Sprint(signals), func(t *testing.T) {
			t.Parallel()
			l, g := startLink(t), newGate(t)
			s := start(t, l.variables, func(c *exec.Cmd) { unread["pipe"](t, c) }, "exec", "--",
				fmt.Sprintf("head -c 3000000 /dev/zero; echo > %s; sleep 300", g))
			g.wait(t)
			l.worker.signal(t, syscall.SIGSTOP)
			for _, sig := range signals {
				s.signal(t, sig)
			}
			s.wantCode(t, exitSignal)
			l.worker.signal(t, syscall.SIGCONT)
			l.worker.signal(t, syscall.SIGTERM)
			l.worker.wantCode(t, exitOK)
		})
	}
}

func TestTimeoutEndsExecThatNobodyReads(t *testing.T) {
	for where, to := range unread {
		for _, command := range []string{"echo x; sleep 300", "yes"} {
			t.Run(command+" to a "+where, func(t *testing.T) {
				t.Parallel()
				l := startLink(t)
				s := start(t, l.variables, func(c *exec.Cmd) { to(t, c) }, "exec", "--timeout=1", "--", command)
				s.wantCode(t, exitTimeout)
				if where == "pipe" && !strings.Contains(s.stderr.String(), "timeout:1, and nobody reads") {
					t.Errorf("stderr is %q", s.stderr)
				}
			})
		}
	}
}

// A reader that comes late gets every byte in order, also when the command has
// long ended. Its output is more than the buffer here and less than the relay's.
func TestLateReaderGetsEverything(t *testing.T) {
	l, g := startLink(t), newGate(t)
	r, w := unreadPipe(t)
	s := start(t, l.variables, func(c *exec.Cmd) { c.Stdout = w }, "exec", "--timeout=10m", "--",
		fmt.Sprintf("seq 1 400000; echo > %s; exit 7", g))
	w.Close()
	g.wait(t)
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	s.wantCode(t, 7)
	var want strings.Builder
	for n := range 400000 {
		fmt.Fprintln(&want, n+1)
	}
	if strings.TrimLeft(string(got), "\x00") != want.String() {
		t.Errorf("got %d bytes, want %d after the zeros", len(got), want.Len())
	}
}

// The first case needs an abort to end; in the others the error comes with or
// after the end of the command.
func TestExecTellsOfOutputThatCannotBeWritten(t *testing.T) {
	l, name := startLink(t), processName("TestFull")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, command := range []string{"echo hi; exec -a " + name + " sleep 300", "echo hi", "echo hi; exit 7", "yes | head -c 3000000"} {
		s := start(t, l.variables, func(c *exec.Cmd) { c.Stdout = full }, "exec", "--", command)
		s.wantCode(t, exitNotRun)
		wantOutput(t, command, s.stderr, "execworker: exec: write stdout: no space left on device\n")

		s = start(t, l.variables, func(c *exec.Cmd) { c.Stderr = full }, "exec", "--", "("+command+") >&2")
		s.wantCode(t, exitNotRun)
	}
	if err := nothingLeft(name); err != nil {
		t.Error(err)
	}
	s := start(t, l.variables, func(c *exec.Cmd) { c.Stdout = full }, "exec", "--", "exit 7")
	s.wantCode(t, 7) // nothing was to be written
	wantOutput(t, "stderr", s.stderr, "")
}

func TestExecTellsOfAClosedStdout(t *testing.T) {
	l := startLink(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ redirection, command, want string }{
		{">&-", "echo hi", "3 bytes went nowhere"},
		{">&-", "true", ""},
		{">/dev/null", "echo hi", ""},
	}
	for _, tt := range tests {
		s := start(t, l.variables, func(c *exec.Cmd) {
			c.Path, c.Args = "/bin/sh", []string{"sh", "-c", `exec "$0" exec -- "$1" ` + tt.redirection, self, tt.command}
		})
		s.wantCode(t, exitOK)
		if got := s.stderr.String(); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s %s: stderr is %q, want %q in it", tt.command, tt.redirection, got, tt.want)
		}
	}
}
