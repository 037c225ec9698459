package process

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Shapes that fight back, and those that come from odd places.

func init() {
	if len(os.Args) > 2 && os.Args[2] == "leaderless" {
		runtime.LockOSThread() // so that the shape runs on the first thread
	}
}

// shapeLeaderless: the first thread of main has ended, others run on. State Z
// does not mean dead.
//
//go:norace
func shapeLeaderless() {
	go func() { dot(); rest() }()
	syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
}

//go:norace
func shapeStopped() {
	for range 3 {
		if fork(plain) == 0 {
			setsid()
			dot()
			pid, _, _ := syscall.RawSyscall(syscall.SYS_GETPID, 0, 0, 0)
			syscall.RawSyscall(syscall.SYS_KILL, pid, uintptr(unix.SIGSTOP), 0)
			rest()
		}
	}
	dot()
	syscall.RawSyscall(syscall.SYS_KILL, uintptr(os.Getpid()), uintptr(unix.SIGSTOP), 0)
	rest()
}

// shapeParricide: main is killed by its child.
//
//go:norace
func shapeParricide() {
	main := uintptr(os.Getpid())
	if fork(plain) == 0 {
		setsid()
		syscall.RawSyscall(syscall.SYS_KILL, main, uintptr(unix.SIGKILL), 0)
		dot()
		rest()
	}
	rest()
}

// shapeEndless: eight chains that fork, leave the session and exit without
// pause, for a minute.
//
//go:norace
//go:norace
func shapeEndless() {
	end := seconds() + 60
	for range 8 {
		if fork(plain) == 0 {
			dot()
			for seconds() < end {
				if pid := fork(plain); pid != 0 {
					if pid == ^uintptr(0) {
						continue
					}
					exit()
				}
				setsid()
			}
			exit()
		}
	}
	dot()
	rest()
}

const bombSize = 150

// shapeBomb: for a minute everybody forks whenever there are fewer than bombSize.
// Who has lost children makes room for others.
//
//go:norace
//go:norace
func shapeBomb(sessions bool) {
	b, _ := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	living := (*int32)(unsafe.Pointer(&b[0]))
	dotted := (*int32)(unsafe.Pointer(&b[4]))
	for end := seconds() + 60; seconds() < end; {
		for {
			pid, _, _ := syscall.RawSyscall6(syscall.SYS_WAIT4, ^uintptr(0), 0, unix.WNOHANG, 0, 0, 0)
			if int(pid) <= 0 {
				break
			}
			atomic.AddInt32(living, -1)
		}
		if atomic.AddInt32(living, 1) > bombSize {
			atomic.AddInt32(living, -1)
			if atomic.CompareAndSwapInt32(dotted, 0, 1) {
				dot()
			}
			nap()
			continue
		}
		if fork(plain) == 0 && sessions {
			setsid()
		}
	}
	exit()
}

// shapeRogue: a child that lowers its own number, and then stays below main or
// comes to the owner.
//
//go:norace
func shapeRogue(orphaned bool) {
	var limit unix.Rlimit
	_ = unix.Prlimit(0, unix.RLIMIT_LOCKS, nil, &limit)
	limit.Max--
	limit.Cur = limit.Max
	if fork(plain) == 0 {
		if orphaned && fork(plain) != 0 {
			exit()
		}
		setsid()
		if orphaned {
			dot() // it may not come to it later
		}
		syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, unix.RLIMIT_LOCKS, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
		dot()
		rest()
	}
	dot()
	rest()
}

// shapeGroup: a group that is not main's, and whose members are not children of
// the owner.
//
//go:norace
//go:norace
func shapeGroup() {
	if fork(plain) == 0 {
		setsid()
		for range 5 {
			if fork(plain) == 0 {
				dot()
				rest()
			}
		}
		dot()
		rest()
	}
	dot()
	rest()
}

// shapeOrphans: 20 processes that come to the owner and end, and main's exit.
//
//go:norace
func shapeOrphans() {
	for range 20 {
		if fork(plain) == 0 {
			if fork(plain) == 0 {
				nap()
			}
			exit()
		}
	}
	exitWith(3)
}

// shapeSurvivor leaves one process behind, which has a word with the test.
//
//go:norace
func shapeSurvivor() {
	detached(plain)
	exitWith(0)
}

// shapeJoin enters the PID namespace of the process whose number it is given,
// and forks there.
//
//go:norace
func shapeJoin() {
	ns, err := os.Open("/proc/" + os.Args[4] + "/ns/pid_for_children")
	if err == nil {
		runtime.LockOSThread()
		err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWPID)
	}
	if err != nil {
		os.Stdout.WriteString(err.Error())
		exitWith(1)
	}
	detached(plain)
	// A process that has joined is known to its new namespace's init only.
	if fork(plain) == 0 {
		if fork(plain) == 0 {
			setsid()
			dot()
			rest()
		}
		exit()
	}
	dot()
	rest()
}

// shapeForeign leaves a process that the test's own process adopts.
//
//go:norace
func shapeForeign() {
	detached(plain)
	exit()
}

// shapeAutoreap: main's children leave no zombie, so their numbers are free at
// once.
//
//go:norace
func shapeAutoreap() {
	signal.Ignore(unix.SIGCHLD)
	detached(plain)
	dot()
	rest()
}

// shapeOtherUser: an orphan that has become another user, which only root can.
//
//go:norace
func shapeOtherUser() {
	if fork(plain) == 0 {
		if fork(plain) == 0 {
			setsid()
			syscall.RawSyscall(syscall.SYS_SETRESUID, 65534, 65534, 65534)
			dot()
			rest()
		}
		exit()
	}
	dot()
	rest()
}

// shapeNested runs a worker inside a worker: an owner of its own, and a tree
// below it, which it sweeps, and another, which it leaves to the outer one.
func shapeNested() {
	say := func(words ...any) { fmt.Println(words...) }
	o, err := NewOwner(Options{})
	if err != nil {
		say(err)
		exitWith(1)
	}
	exe, _ := os.Executable()
	spawn := func() *Tree {
		r, w, _ := os.Pipe()
		t, err := o.Spawn(Command{
			Path:  exe,
			Args:  []string{exe, "shape", "double", os.Args[3]},
			Env:   os.Environ(),
			Files: [3]int{0, int(w.Fd()), 2},
		})
		if err != nil {
			say(err)
			exitWith(1)
		}
		_, _ = io.ReadFull(r, make([]byte, 2))
		return t
	}
	sweep := spawn().Sweep()
	say(o.Level(), sweep.Proven())
	spawn()
	say("ready")
	rest()
}
