package process

import (
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The floor is os/exec, in turn in the same run, because the figures of two
// runs on a shared machine cannot be compared. An owner would take the
// floor's children for rogues, so there is none during its turns.

const script = "true"

// command is one run of bash with two pipes, read to their ends.
type command func(b *testing.B, stdout, stderr *os.File) (wait func())

func plainCommand(b *testing.B, stdout, stderr *os.File) func() {
	cmd := exec.Command("/bin/bash", "-c", script)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	return func() {
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	}
}

func ownedCommand(o *Owner, null *os.File) command {
	in := int(null.Fd())
	return func(b *testing.B, stdout, stderr *os.File) func() {
		tree, err := o.Spawn(Command{
			Path:  "/bin/bash",
			Args:  []string{"bash", "-c", script},
			Env:   os.Environ(),
			Files: [3]int{in, int(stdout.Fd()), int(stderr.Fd())},
		})
		if err != nil {
			b.Fatal(err)
		}
		return func() {
			if exit := tree.Release(); exit.Code != 0 {
				b.Error(exit)
			}
		}
	}
}

func (c command) run(b *testing.B) time.Duration {
	began := time.Now()
	var readers [2]*os.File
	var writers [2]*os.File
	for i := range readers {
		var err error
		if readers[i], writers[i], err = os.Pipe(); err != nil {
			b.Fatal(err)
		}
	}
	wait := c(b, writers[0], writers[1])
	for i, r := range readers {
		writers[i].Close()
		_, _ = io.Copy(io.Discard, r)
		r.Close()
	}
	wait()
	return time.Since(began)
}

func ownCPU() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// turns are what one side has taken.
type turns struct {
	each []time.Duration
	cpu  time.Duration
	took time.Duration
}

func (s *turns) take(b *testing.B, c command, callers, runs int) {
	cpu, began := ownCPU(), time.Now()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range runs {
				d := c.run(b)
				mu.Lock()
				s.each = append(s.each, d)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	s.took += time.Since(began)
	s.cpu += ownCPU() - cpu
}

func benchmarkSpawn(b *testing.B, callers int) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	var floor, ours turns
	for b.Loop() {
		floor.take(b, plainCommand, callers, 64/callers)
		o, err := NewOwner(Options{})
		if err != nil {
			b.Fatal(err)
		}
		ours.take(b, ownedCommand(o, null), callers, 64/callers)
		for o.Counts().Trees > 0 {
			time.Sleep(time.Millisecond)
		}
		o.Close()
	}
	p50 := func(s turns) float64 {
		slices.Sort(s.each)
		return float64(s.each[len(s.each)/2].Microseconds())
	}
	b.ReportMetric(0, "ns/op") // of both sides together: says nothing
	b.ReportMetric(p50(ours), "p50-µs")
	b.ReportMetric(p50(ours)/p50(floor), "p50/floor")
	b.ReportMetric(float64(floor.took)/float64(ours.took), "rate/floor")
	b.ReportMetric(float64(ours.cpu)/float64(floor.cpu), "cpu/floor")
}

func BenchmarkSpawnOneCaller(b *testing.B)      { benchmarkSpawn(b, 1) }
func BenchmarkSpawnSixteenCallers(b *testing.B) { benchmarkSpawn(b, 16) }

// BenchmarkSweep is the time from the kill of a lone sleeping process to the
// proof, over that of os/exec to its status.
func BenchmarkSweep(b *testing.B) {
	var floor, ours []time.Duration
	for b.Loop() {
		for range 20 {
			cmd := exec.Command("/bin/bash", "-c", "echo; exec sleep 100")
			out, err := cmd.StdoutPipe()
			if err != nil {
				b.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			_, _ = out.Read(make([]byte, 1))
			began := time.Now()
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			floor = append(floor, time.Since(began))
		}
		o, err := NewOwner(Options{})
		if err != nil {
			b.Fatal(err)
		}
		for range 20 {
			r, w, err := os.Pipe()
			if err != nil {
				b.Fatal(err)
			}
			fd := int(w.Fd())
			tree, err := o.Spawn(Command{Path: "/bin/bash", Args: []string{"bash", "-c", "echo; exec sleep 100"}, Files: [3]int{fd, fd, fd}})
			if err != nil {
				b.Fatal(err)
			}
			w.Close()
			_, _ = r.Read(make([]byte, 1))
			began := time.Now()
			if sweep := tree.Sweep(); !sweep.Proven() {
				b.Error(sweep)
			}
			ours = append(ours, time.Since(began))
			r.Close()
		}
		o.Close()
	}
	slices.Sort(floor)
	slices.Sort(ours)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(ours[len(ours)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(ours[len(ours)/2])/float64(floor[len(floor)/2]), "p50/floor")
}
