package process

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// 8.13.
func TestFenceRefusesWhatIsNotOursToSignal(t *testing.T) {
	// A process of our own session, that is not of any tree.
	cmd := exec.Command("/bin/bash", "-c", "read", markerPrefix())
	hold, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { hold.Close(); _ = cmd.Wait() }()
	fellow := cmd.Process.Pid

	var sent []int
	s := newSignaller(&kernel{
		kill:      func(pid int, _ syscall.Signal) error { sent = append(sent, pid); return nil },
		pidfdSend: func(pidfd int, _ syscall.Signal) error { sent = append(sent, pidfd); return nil },
		sessionOf: unix.Getsid,
	})
	for _, to := range []target{
		pinned(1), pinned(0), pinned(-1), pinned(-1000), pinned(os.Getpid()), pinned(fellow),
		fenced(1, 7), fenced(0, 7), fenced(-1, 7), fenced(os.Getpid(), 7), fenced(fellow, 7),
		groupOf(2, 1), groupOf(2, -1), groupOf(1, 5), groupOf(0, 5), groupOf(2, os.Getpid()),
		groupOf(2, syscall.Getpgrp()), groupOf(fellow, fellow), groupOf(os.Getpid(), 5),
	} {
		var refused *refusedError
		if err := s.send(to, unix.SIGKILL); !errors.As(err, &refused) {
			t.Errorf("%+v: got %v, want a refusal", to, err)
		}
	}
	if len(sent) > 0 {
		t.Errorf("signals were sent to %v", sent)
	}
}

// 8.14.
func TestFenceSparesAGroupThatItsMemberHasLeft(t *testing.T) {
	var elsewhere, ended, running atomic.Bool
	o := startChangedOwner(t, Options{}, func(k *kernel) {
		statOf := k.statOf
		k.statOf = func(pid int) (stat, error) {
			s, err := statOf(pid)
			switch {
			case elsewhere.Load():
				s.group++
			case ended.Load():
				s.state = 'Z'
			case running.Load():
				s.state = 'R'
			}
			return s, err
		}
	})
	s := startShape(t, o, "group", 7)
	var member, group int
	for _, pid := range members(s) {
		if g, err := unix.Getpgid(pid); err == nil && g != pid {
			member, group = pid, g
		}
	}
	for name, turned := range map[string]*atomic.Bool{"elsewhere": &elsewhere, "ended": &ended, "running": &running} {
		turned.Store(true)
		if o.killGroup(member, group, s.tag) {
			t.Errorf("%s: the group was killed", name)
		}
		turned.Store(false)
		wantBearing(t, s.marker, 7)
	}
	if o.killGroup(member, group, s.tag+1) {
		t.Error("the group was killed for another tree's number")
	}
	waitFor(t, "the group to be killed", func() bool { return o.killGroup(member, group, s.tag) })
	waitFor(t, "the group to be gone", func() bool { return len(bearing(s.marker)) == 1 })
	s.wantSwept()
}

// 8.15, as if the number had been given to somebody else at once.
func TestFenceNeverSignalsMainsNumberAfterRelease(t *testing.T) {
	r := new(recorder)
	var main atomic.Int32
	o := startChangedOwner(t, nicely, func(k *kernel) {
		sessionOf, kill := k.sessionOf, k.kill
		k.sessionOf = func(pid int) (int, error) {
			if int32(pid) == main.Load() {
				return pid, nil
			}
			return sessionOf(pid)
		}
		k.kill = func(pid int, sig syscall.Signal) error {
			if of := main.Load(); of != 0 && (int32(pid) == of || int32(-pid) == of) {
				return nil
			}
			return kill(pid, sig)
		}
		r.change(k)
	})
	s := startShape(t, o, "survivor", 1)
	s.Release()
	main.Store(int32(s.PID()))
	s.wantSwept()
	r.wantNever(t, s.PID())
}

// 8.12: between each two steps of the fence the process ends and its number is
// given to another, which must live on. Needs a PID namespace whose next
// number can be chosen.
func TestInPID1FenceSparesTheNextOfTheNumber(t *testing.T) {
	if os.Getpid() != 1 {
		t.Skip("runs as PID 1 of a small namespace, below TestPlacePID1")
	}
	for _, step := range []string{"open", "tag", "send"} {
		t.Run(step, func(t *testing.T) {
			// A thread of this program may have taken the number instead.
			for range 20 {
				if numberWasReused(t, step) {
					return
				}
			}
			t.Error("the number was never given to another process")
		})
	}
}

func numberWasReused(t *testing.T, step string) (reused bool) {
	const lastPID = "/proc/sys/kernel/ns_last_pid"
	var victim atomic.Int32
	var opened atomic.Bool
	var stranger *subject
	o, err := NewOwner(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	replace := func() {
		pid := int(victim.Swap(0))
		_ = unix.Kill(pid, unix.SIGKILL)
		waitFor(t, "the victim's number to be free", func() bool { return !alive(pid) })
		if err := os.WriteFile(lastPID, []byte(strconv.Itoa(pid-1)), 0o644); err != nil {
			t.Error(err)
		}
		stranger = startBash(t, o, "echo; sleep 100; true")
		reused = stranger.PID() == pid
	}
	// The keeper must not see any of this, so the fence is another owner's.
	k := *o.kernel
	open, tagOf, send := k.pidfdOpen, k.tagOf, k.pidfdSend
	is := func(pid int) bool { return pid != 0 && int32(pid) == victim.Load() }
	k.pidfdOpen = func(pid int) (int, error) {
		if is(pid) && step == "open" {
			replace()
		}
		opened.Store(is(pid))
		return open(pid)
	}
	k.tagOf = func(pid int) (uint64, error) {
		if is(pid) && step == "tag" && opened.Load() {
			replace()
		}
		return tagOf(pid)
	}
	k.pidfdSend = func(pidfd int, sig syscall.Signal) error {
		if is(pidOf(pidfd)) && step == "send" {
			replace()
		}
		return send(pidfd, sig)
	}
	fence := &Owner{kernel: &k, signals: newSignaller(&k)}

	s := startShape(t, o, "autoreap", 2)
	pid := members(s)[0]
	victim.Store(int32(pid))
	got := fence.killFenced(pid, s.tag, unix.SIGKILL)
	if reused {
		if got != foundNobody {
			t.Errorf("the fence has met %v, want nobody", got)
		}
		stranger.waitLine()
		if stranger.Ended(0) {
			t.Error("the stranger has been killed")
		}
	}
	s.wantSwept()
	stranger.wantSwept()
	return reused
}
