package process

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const commandKept = 512 // bytes of a command line, and of a file's name

// folder is /proc/<pid>, open. It stands for that one process: once it is gone,
// all that is read below gives an error, whoever has the number then.
type folder struct {
	pid int
	dir int
}

func openFolder(pid int) (folder, error) {
	dir, err := unix.Open("/proc/"+strconv.Itoa(pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return folder{pid, dir}, err
}

func (f folder) close() { unix.Close(f.dir) }

func (f folder) stat() (stat, error) {
	var buf [1 << 10]byte
	b, err := readIn(f.dir, "stat", buf[:])
	if err != nil {
		return stat{}, err
	}
	return parseStat(b)
}

// miss writes down that what could not be read, unless that is because the
// process has gone.
func (f folder) miss(g *gaps, what string, err error) {
	if _, gone := f.stat(); gone != nil {
		return
	}
	if err == unix.ENOENT {
		err = errNoFile
	}
	g.add(what, err, f.pid)
}

// detail looks closely at a process that a scan has met. ok is false if it has
// gone meanwhile.
func (m met) detail(g *gaps) (d Detail, ok bool) {
	f, err := openFolder(m.pid)
	if err != nil {
		if err != unix.ENOENT && err != unix.ESRCH {
			g.add("the details", err, m.pid) // out of descriptors
			return m.outline(), true
		}
		return Detail{}, false
	}
	defer f.close()
	s, err := f.stat()
	if err != nil || s.started != m.stat.started {
		return Detail{}, false
	}
	m.stat = s
	d = m.outline()
	d.Command = f.command(s.state, g)
	switch s.state {
	case 'Z', 'X', 'R': // sleep nowhere
	default:
		d.WaitChannel = f.waitChannel(g)
		d.Call, d.FD, d.File = f.call(g)
	}
	return d, true
}

// outline is what the scan has seen of it.
func (m met) outline() Detail {
	return Detail{
		Process: m.process(), Group: m.stat.group, Session: m.stat.session, Threads: m.stat.threads,
		RSS: m.stat.rss * int64(os.Getpagesize()), FD: -1,
	}
}

// command is the arguments, with spaces for the NULs between them. A zombie has
// none, and whoever has written over his own has what he wrote.
//
// It is read from the process's memory, under a lock that one in state D may
// never let go of (mmap_lock, in get_task_cmdline of fs/proc/base.c): no time
// box would help us then.
func (f folder) command(state byte, g *gaps) string {
	if state == 'D' {
		g.add("the command line", errMayHang, f.pid)
		return ""
	}
	var buf [commandKept]byte
	b, err := readIn(f.dir, "cmdline", buf[:])
	if err != nil {
		f.miss(g, "the command line", err)
		return ""
	}
	b = bytes.TrimRight(b, "\x00")
	for i, c := range b {
		if c == 0 {
			b[i] = ' '
		}
	}
	return string(b)
}

// waitChannel is the kernel function that a sleeping process is in. To those who
// may not know it the file says 0, as of a process that runs. So it is asked a
// few times: one that sleeps most of the time is met asleep.
func (f folder) waitChannel(g *gaps) string {
	var buf [128]byte
	for range 3 {
		b, err := readIn(f.dir, "wchan", buf[:])
		if err != nil {
			f.miss(g, "the wait channel", err)
			return ""
		}
		if string(b) != "0" {
			return string(b)
		}
		if s, err := f.stat(); err != nil || s.state == 'R' || s.state == 'Z' || s.state == 'X' {
			return ""
		}
	}
	f.miss(g, "the wait channel", errNotShown)
	return ""
}

// call is the system call that the first thread sleeps in, the descriptor that
// it is about, and what that is.
func (f folder) call(g *gaps) (name string, fd int, file string) {
	before, err := f.readCall()
	if err != nil {
		f.miss(g, "the system call", err)
		return "", -1, ""
	}
	name, fd = parseCall(before)
	if fd < 0 {
		return name, -1, ""
	}
	var buf [commandKept]byte
	n, err := unix.Readlinkat(f.dir, "fd/"+strconv.Itoa(fd), buf[:])
	switch {
	case err == unix.ENOENT: // there is no such descriptor, or it is closed by now
		return name, fd, ""
	case err != nil:
		f.miss(g, "the file behind the descriptor", err)
		return name, fd, ""
	}
	// Unless it still sleeps there, the file may be what the number means now.
	if after, err := f.readCall(); err != nil || !slices.Equal(before, after) {
		return name, fd, ""
	}
	return name, fd, string(buf[:n])
}

func (f folder) readCall() ([]string, error) {
	var buf [256]byte // nine numbers
	b, err := readIn(f.dir, "syscall", buf[:])
	return strings.Fields(string(b)), err
}

// parseCall reads the fields of /proc/<pid>/syscall (proc_pid_syscall(5)): the
// number, six arguments, stack pointer and program counter; or "running"; or -1
// and two pointers for a thread that sleeps outside any call, such as one that
// is stopped.
func parseCall(fields []string) (name string, fd int) {
	if len(fields) != 9 {
		return "", -1
	}
	number, err := strconv.ParseUint(fields[0], 10, 32)
	if err != nil {
		return "", -1
	}
	c, known := calls[uintptr(number)]
	stack, err := strconv.ParseUint(fields[7], 0, 64)
	// A 32-bit program on a 64-bit kernel has other numbers, and its stack down here.
	if !known || err != nil || stack < 1<<32 {
		return "syscall " + fields[0], -1
	}
	if !c.fd {
		return c.name, -1
	}
	argument, err := strconv.ParseUint(fields[1], 0, 64)
	if err != nil {
		return c.name, -1
	}
	return c.name, int(int32(argument)) // a C int: the upper half means nothing
}
