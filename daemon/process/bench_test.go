package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sort"
	"syscall"
	"testing"
	"time"
)

func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestFigure(t *testing.T) {
	if os.Getenv("FIG") == "" {
		t.Skip()
	}
	var plain, ours []time.Duration
	var plainCPU, oursCPU time.Duration
	null, _ := os.Open("/dev/null")
	env := os.Environ()
	for b := 0; b < 60; b++ {
		c0 := cpu()
		for i := 0; i < 30; i++ {
			s := time.Now()
			r1, w1, _ := os.Pipe()
			r2, w2, _ := os.Pipe()
			cmd := exec.Command("/bin/bash", "-c", "true")
			cmd.Stdout, cmd.Stderr = w1, w2
			cmd.Env = env
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			w1.Close()
			w2.Close()
			io.Copy(io.Discard, r1)
			io.Copy(io.Discard, r2)
			cmd.Wait()
			r1.Close()
			r2.Close()
			plain = append(plain, time.Since(s))
		}
		plainCPU += cpu() - c0
		o, err := NewOwner(Options{})
		if err != nil {
			t.Fatal(err)
		}
		c0 = cpu()
		for i := 0; i < 30; i++ {
			s := time.Now()
			r1, w1, _ := os.Pipe()
			r2, w2, _ := os.Pipe()
			tr, err := o.Spawn(Command{Path: "/bin/bash", Args: []string{"bash", "-c", "true"}, Env: env, Files: [3]int{int(null.Fd()), int(w1.Fd()), int(w2.Fd())}})
			if err != nil {
				t.Fatal(err)
			}
			w1.Close()
			w2.Close()
			io.Copy(io.Discard, r1)
			io.Copy(io.Discard, r2)
			tr.Release()
			r1.Close()
			r2.Close()
			ours = append(ours, time.Since(s))
		}
		oursCPU += cpu() - c0
		for o.Counts().Trees > 0 {
			time.Sleep(time.Millisecond)
		}
		o.Close()
	}
	p := func(d []time.Duration, q float64) time.Duration {
		sort.Slice(d, func(i, j int) bool { return d[i] < d[j] })
		return d[int(float64(len(d))*q)]
	}
	fmt.Println("plain p50", p(plain, .5), "p90", p(plain, .9), "cpu", plainCPU/1800)
	fmt.Println("ours  p50", p(ours, .5), "p90", p(ours, .9), "cpu", oursCPU/1800)
	fmt.Printf("ratio %.3f cpu %.3f\n", float64(p(ours, .5))/float64(p(plain, .5)), float64(oursCPU)/float64(plainCPU))
	// sweep
	o, _ := NewOwner(Options{})
	var sw, pk []time.Duration
	for i := 0; i < 30; i++ {
		r1, w1, _ := os.Pipe()
		tr, err := o.Spawn(Command{Path: "/bin/bash", Args: []string{"bash", "-c", "echo x; exec sleep 100"}, Env: env, Files: [3]int{int(null.Fd()), int(w1.Fd()), int(w1.Fd())}})
		if err != nil {
			t.Fatal(err)
		}
		r1.Read(make([]byte, 10))
		time.Sleep(3 * time.Millisecond)
		s := time.Now()
		x := tr.Sweep()
		sw = append(sw, time.Since(s))
		if !x.Proven() || x.Exit.Signal != syscall.SIGKILL {
			t.Fatal(x)
		}
		if i == 0 {
			fmt.Println(x.Rounds, x.Reaped, x.Took)
		}
		r1.Close()
		w1.Close()
	}
	o.Close()
	for i := 0; i < 30; i++ {
		r1, w1, _ := os.Pipe()
		cmd := exec.Command("/bin/bash", "-c", "echo x; exec sleep 100")
		cmd.Stdout = w1
		cmd.Start()
		r1.Read(make([]byte, 10))
		time.Sleep(3 * time.Millisecond)
		s := time.Now()
		cmd.Process.Kill()
		cmd.Wait()
		pk = append(pk, time.Since(s))
		r1.Close()
		w1.Close()
	}
	fmt.Println("sweep p50", p(sw, .5), "kill-wait", p(pk, .5))
}
