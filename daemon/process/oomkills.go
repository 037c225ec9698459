package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// OOMKills counts the processes that the kernel has killed because memory was
// short, in the cgroup that this program was in when the count was opened. That
// is oom_kill of memory.events (cgroup v2, with all cgroups below) or of
// memory.oom_control (v1, without them), since Linux 4.13; see admin-guide/cgroup-v2.rst
// and admin-guide/cgroup-v1/memory.rst of the kernel. The kernel counts before it
// sends the SIGKILL, so whoever has seen the victim's end finds it counted.
//
// A nil one counts nothing. All methods but Close are safe for concurrent use.
type OOMKills struct{ fd int }

// OpenOOMKills finds the file and keeps it open; Close closes it. The error says
// what could not be found or read: there is no such file in the root cgroup of
// a machine, and none where no cgroups are mounted.
func OpenOOMKills() (*OOMKills, error) {
	return openOOMKills("/proc/self/cgroup", "/proc/self/mountinfo")
}

func openOOMKills(cgroup, mountinfo string) (*OOMKills, error) {
	own, err := os.ReadFile(cgroup)
	if err != nil {
		return nil, fmt.Errorf("count OOM kills: %w", err)
	}
	mounts, err := os.ReadFile(mountinfo)
	if err != nil {
		return nil, fmt.Errorf("count OOM kills: %w", err)
	}
	err = errors.New("no cgroup with a memory controller is mounted")
	for _, file := range oomFiles(string(own), string(mounts)) {
		var fd int
		if fd, err = unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			err = &os.PathError{Op: "open", Path: file, Err: err}
			continue
		}
		k := &OOMKills{fd: fd}
		if _, err = k.Count(); err == nil {
			return k, nil
		}
		k.Close()
	}
	return nil, fmt.Errorf("count OOM kills: %w", err)
}

// Count is the number of kills so far. It costs one pread.
func (k *OOMKills) Count() (int64, error) {
	if k == nil {
		return 0, errors.New("OOM kills are not counted")
	}
	var buf [512]byte // six short lines
	n, err := unix.Pread(k.fd, buf[:], 0)
	if err != nil {
		return 0, os.NewSyscallError("pread", err)
	}
	for line := range bytes.Lines(buf[:n]) {
		if count, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
			return strconv.ParseInt(string(bytes.TrimSpace(count)), 10, 64)
		}
	}
	return 0, errors.New("the kernel does not count OOM kills")
}

// Close ends the counting.
func (k *OOMKills) Close() {
	if k != nil {
		unix.Close(k.fd)
	}
}

// oomFiles lists where the count may be, from a process's cgroups and mounts
// (cgroups(7), proc_pid_mountinfo(5)). The memory controller is in one hierarchy:
// that of v2 (number 0), unless a v1 hierarchy has it.
func oomFiles(cgroups, mounts string) (files []string) {
	v1, own := false, ""
	for line := range strings.Lines(cgroups) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // number, controllers, path
		switch {
		case len(f) < 3:
		case f[0] == "0" && !v1:
			own = f[2]
		case contains(f[1], "memory"):
			v1, own = true, f[2]
		}
	}
	if own == "" {
		return nil
	}
	for line := range strings.Lines(mounts) {
		// The place, with the root that is seen there and its point; "-"; what it is.
		place, kind, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		at, is := strings.Fields(place), strings.Fields(kind)
		if !ok || len(at) < 5 || len(is) < 3 {
			continue
		}
		root, point := octal.Replace(at[3]), octal.Replace(at[4])
		below, ok := strings.CutPrefix(own+"/", strings.TrimSuffix(root, "/")+"/")
		switch {
		case !ok: // our own cgroup is not in this part of the hierarchy
		case v1 && is[0] == "cgroup" && contains(is[2], "memory"):
			files = append(files, path.Join(point, below, "memory.oom_control"))
		case !v1 && is[0] == "cgroup2":
			files = append(files, path.Join(point, below, "memory.events"))
		}
	}
	return files
}

// octal undoes what mountinfo does to paths.
var octal = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// contains says whether a word is in a list with commas.
func contains(list, word string) bool {
	return strings.Contains(","+list+",", ","+word+",")
}
