package process

import (
	"bytes"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a process of some tree, read from the kernel's tables.
type Process struct {
	PID         int
	PPID        int
	Name        string // comm: untrusted, chosen by the process
	State       string // one letter of /proc/<pid>/stat
	WaitChannel string // empty when it cannot be read
	StartedAt   time.Time
	Tag         uint64
}

// stat is what we use of /proc/<pid>/stat (proc_pid_stat(5)).
type stat struct {
	name    string
	state   byte
	ppid    int
	group   int
	session int
	threads int
	cpu     int64 // clock ticks, user and system, all threads
	rss     int64 // pages; not exact, for the kernel adds its counters up now and then
	started int64 // clock ticks since boot
}

// ticksPerSecond is USER_HZ, which is 100 on every architecture that Go runs on.
const ticksPerSecond = 100

func readStat(pid int) (stat, error) {
	var buf [1 << 10]byte // 52 numbers and a name of at most 64 bytes
	b, err := readProc(pid, "stat", buf[:])
	if err != nil {
		return stat{}, err
	}
	return parseStat(b)
}

func parseStat(b []byte) (stat, error) {
	// The name is in brackets and may hold anything, brackets included.
	open, shut := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || shut < open {
		return stat{}, unix.ESRCH
	}
	f := bytes.Fields(b[shut+1:])
	if len(f) < 22 {
		return stat{}, unix.ESRCH
	}
	s := stat{name: string(b[open+1 : shut]), state: f[0][0]}
	s.ppid, _ = strconv.Atoi(string(f[1]))
	s.group, _ = strconv.Atoi(string(f[2]))
	s.session, _ = strconv.Atoi(string(f[3]))
	user, _ := strconv.ParseInt(string(f[11]), 10, 64)
	system, _ := strconv.ParseInt(string(f[12]), 10, 64)
	s.cpu = user + system
	s.threads, _ = strconv.Atoi(string(f[17]))
	s.rss, _ = strconv.ParseInt(string(f[21]), 10, 64)
	s.started, _ = strconv.ParseInt(string(f[19]), 10, 64)
	return s, nil
}

// describe reads what there is to say about a process. ok is false when it is gone.
func describe(pid int, tag uint64) (p Process, ok bool) {
	s, err := readStat(pid)
	if err != nil {
		return Process{}, false
	}
	return met{pid: pid, tag: tag, stat: s}.describe(), true
}

// describe adds the wait channel, as of now.
func (m met) describe() Process {
	p := m.process()
	var buf [128]byte
	if channel, err := readProc(m.pid, "wchan", buf[:]); err == nil && string(channel) != "0" {
		p.WaitChannel = string(channel)
	}
	return p
}

// process is what the scan has seen of it.
func (m met) process() Process {
	return Process{
		PID: m.pid, PPID: m.stat.ppid, Name: m.stat.name, State: string(m.stat.state),
		Tag: m.tag, StartedAt: sinceBoot(m.stat.started),
	}
}

func sinceBoot(ticks int64) time.Time {
	var up unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) != nil {
		return time.Time{}
	}
	age := time.Duration(up.Nano()) - time.Duration(ticks)*(time.Second/ticksPerSecond)
	return time.Now().Add(-age)
}
