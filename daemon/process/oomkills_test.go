package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOOMFilesAreThoseOfTheOwnCgroup(t *testing.T) {
	const (
		v2     = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
		v1     = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
		v1cpu  = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
		hybrid = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n" + v1cpu + v1
		// What docker mounts without a cgroup namespace: the container's own part.
		part = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro master:11 - cgroup cgroup rw,memory\n"
	)
	tests := []struct {
		name, cgroups, mounts string
		want                  []string
	}{
		{"v2", "0::/system.slice/x.service\n", v2, []string{"/sys/fs/cgroup/system.slice/x.service/memory.events"}},
		{"v2 in a namespace", "0::/\n", v2, []string{"/sys/fs/cgroup/memory.events"}},
		{"v1", "4:memory:/a/b\n1:cpu:/c\n", v1cpu + v1, []string{"/sys/fs/cgroup/memory/a/b/memory.oom_control"}},
		{"v1 beside another controller", "4:cpu,memory:/a\n", v1, []string{"/sys/fs/cgroup/memory/a/memory.oom_control"}},
		{"v1 with an empty v2", "4:memory:/a\n0::/z\n", hybrid, []string{"/sys/fs/cgroup/memory/a/memory.oom_control"}},
		{"the same, in the other order", "0::/z\n4:memory:/a\n", hybrid, []string{"/sys/fs/cgroup/memory/a/memory.oom_control"}},
		{"a part of v1", "4:memory:/docker/abc\n", part, []string{"/sys/fs/cgroup/memory/memory.oom_control"}},
		{"below a part of v1", "4:memory:/docker/abc/d\n", part, []string{"/sys/fs/cgroup/memory/d/memory.oom_control"}},
		{"outside the part", "4:memory:/docker/abcd\n", part, nil},
		{"outside the namespace", "0::/../x\n", strings.ReplaceAll(v2, " / /", " /y /"), nil},
		{"a point with a space", "0::/a b\n", strings.ReplaceAll(v2, "/sys/fs/cgroup", `/c\040g\134`), []string{`/c g\/a b/memory.events`}},
		{"a path with colons", "0::/a:b:c\n", v2, []string{"/sys/fs/cgroup/a:b:c/memory.events"}},
		{"two mounts", "0::/\n", v2 + strings.ReplaceAll(v2, "/sys/fs", "/mnt"), []string{"/sys/fs/cgroup/memory.events", "/mnt/cgroup/memory.events"}},
		{"no cgroups", "", v2, nil},
		{"nothing mounted", "0::/\n", "21 1 0:20 / /proc rw - proc proc rw\n", nil},
		{"garbage", "x\n0:\n\n", "- \n a - b\n", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := oomFiles(test.cgroups, test.mounts); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// fixture is a cgroup v2 whose memory.events holds events; the file can be
// written to afterwards.
func fixture(t *testing.T, events string) (cgroup, mountinfo, file string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	mount := fmt.Sprintf("30 23 0:26 / %s rw - cgroup2 cgroup2 rw\n", dir)
	return write("cgroup", "0::/\n"), write("mountinfo", mount), write("memory.events", events)
}

func TestOOMKillsAreReadAfresh(t *testing.T) {
	cgroup, mountinfo, file := fixture(t, "low 0\nhigh 7\nmax 8\noom 9\noom_kill 3\noom_group_kill 1\n")
	k, err := openOOMKills(cgroup, mountinfo)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for _, want := range []int64{3, 12} {
		if err := os.WriteFile(file, fmt.Appendf(nil, "oom_kill_disable 5\nunder_oom 6\noom_kill %d", want), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := k.Count(); got != want || err != nil {
			t.Errorf("count is %d, %v, want %d", got, err, want)
		}
	}
}

func TestOOMKillsThatAreNotCountedAreAnError(t *testing.T) {
	for _, events := range []string{"", "oom 4\n", "oom_kill_disable 0\nunder_oom 0\n", "oom_kill x\n", " oom_kill 1\n"} {
		cgroup, mountinfo, _ := fixture(t, events)
		if k, err := openOOMKills(cgroup, mountinfo); err == nil {
			k.Close()
			t.Errorf("%q is taken for a count", events)
		}
	}
	cgroup, mountinfo, file := fixture(t, "")
	os.Remove(file)
	for _, paths := range [][2]string{{"/nowhere", mountinfo}, {cgroup, "/nowhere"}, {cgroup, mountinfo}} {
		if _, err := openOOMKills(paths[0], paths[1]); err == nil || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("%v: got %v", paths, err)
		}
	}
	var none *OOMKills
	if n, err := none.Count(); n != 0 || err == nil {
		t.Errorf("none counts %d, %v", n, err)
	}
	none.Close()
}

// startLimited makes a cgroup below our own that may use 16 MiB, and returns
// /proc/self/cgroup as it would be in there, and the file that puts a process in.
func startLimited(t *testing.T) (cgroup, procs string) {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip(err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Skip(err)
	}
	for _, file := range oomFiles(string(own), string(mounts)) {
		dir := filepath.Join(filepath.Dir(file), fmt.Sprintf("process-test-%d", os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			continue
		}
		t.Cleanup(func() { unix.Rmdir(dir) })
		limit := "memory.max"
		if strings.HasSuffix(file, "memory.oom_control") {
			limit = "memory.limit_in_bytes"
		}
		if err := os.WriteFile(filepath.Join(dir, limit), []byte("16777216"), 0); err != nil {
			continue // v2 gives the controller to cgroups without processes only
		}
		// Without swap there is nowhere to go. Where there is none, this fails.
		_ = os.WriteFile(filepath.Join(dir, "memory.swap.max"), []byte("0"), 0)
		_ = os.WriteFile(filepath.Join(dir, "memory.swappiness"), []byte("0"), 0)
		var there strings.Builder
		for line := range strings.Lines(string(own)) {
			there.WriteString(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "/") + "/" + filepath.Base(dir) + "\n")
		}
		cgroup = filepath.Join(t.TempDir(), "cgroup")
		if err := os.WriteFile(cgroup, []byte(there.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return cgroup, filepath.Join(dir, "cgroup.procs")
	}
	t.Skip("no cgroup with a memory limit can be made here")
	return "", ""
}

func TestOOMKillsCountWhatTheKernelKills(t *testing.T) {
	cgroup, procs := startLimited(t)
	k, err := openOOMKills(cgroup, "/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for want := range int64(3) {
		if got, err := k.Count(); got != want || err != nil {
			t.Errorf("count is %d, %v, want %d", got, err, want)
		}
		cmd := exec.Command("/bin/bash", "-c", `echo $$ > "$0" && exec tail /dev/zero`, procs)
		if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.Sys().(interface{ Signaled() bool }).Signaled() == false {
			t.Fatalf("it was not killed: %v", err)
		}
	}
}

func BenchmarkOOMKills(b *testing.B) {
	k, err := OpenOOMKills()
	if err != nil {
		b.Skip(err)
	}
	defer k.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Count(); err != nil {
			b.Fatal(err)
		}
	}
}
