package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cpuOf is the processor time of a process and its threads, without its
// children: utime+stime of /proc/<pid>/stat (fields 14 and 15), but from the
// process's own clock (clock_getcpuclockid(3)), which counts nanoseconds where
// stat counts 10 ms.
func cpuOf(pids ...int) (time.Duration, error) {
	var sum time.Duration
	for _, pid := range pids {
		const sched = 2 // CPUCLOCK_SCHED of the kernel's posix-timers.h
		var ts unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|sched), &ts); err != nil {
			return 0, fmt.Errorf("read the clock of process %d: %w", pid, err)
		}
		sum += time.Duration(ts.Nano())
	}
	return sum, nil
}

// residentOf is the resident memory of processes in bytes.
func residentOf(pids ...int) (float64, error) {
	sum := 0.0
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return 0, err
		}
		_, rest, _ := strings.Cut(string(b), "VmRSS:")
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			return 0, fmt.Errorf("no VmRSS of process %d", pid)
		}
		kib, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return 0, err
		}
		sum += kib * 1024
	}
	return sum, nil
}

// serving returns root and those below it that are a worker's own processes: a
// worker may have made itself a parent.
func serving(root int) []int {
	pids := []int{root}
	for i := 0; i < len(pids); i++ {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pids[i]))
		for _, list := range lists {
			b, _ := os.ReadFile(list)
			for _, field := range strings.Fields(string(b)) {
				pid, _ := strconv.Atoi(field)
				args := arguments(pid)
				if len(args) > 1 && args[1] == "serve" {
					pids = append(pids, pid)
				}
			}
		}
	}
	return pids
}

func arguments(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

var marks atomic.Int64

// marked returns a number of seconds that no other sleep on this machine has as
// its argument, so that it can be found in the process table.
func marked(seconds int) string {
	return fmt.Sprintf("%d.%07d%04d", seconds, os.Getpid(), marks.Add(1))
}

// sleepers are the processes that are "sleep duration" at this moment.
func sleepers(duration string) []int {
	want := []byte("sleep\x00" + duration + "\x00")
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var pids []int
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && bytes.Equal(b, want) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// waitSleeper waits until there is one. The kernel tells nobody about other
// people's processes, so it has to be asked again.
func waitSleeper(duration string) error {
	for deadline := time.Now().Add(execHang); ; time.Sleep(time.Millisecond) {
		if len(sleepers(duration)) > 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no process became sleep %s", duration)
		}
	}
}

// endSleepers kills what a worker has let live.
func endSleepers(duration string) {
	for _, pid := range sleepers(duration) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
