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

// Shapes of trees. Each runs in a process of its own, as main. Processes are
// made with a bare fork, so that a tree of hundreds is cheap: after it only
// system calls are made, because all other threads of the Go program are gone.

var shapes = map[string]func(){
	"one":           func() { dot(); rest() },
	"exit":          func() { exitWith(7) },
	"setsid":        shapeSetsid,
	"double":        shapeDouble,
	"cleared":       shapeCleared,
	"deaf":          shapeDeaf,
	"sessions":      shapeSessions,
	"chain":         shapeChain,
	"subreaper":     shapeSubreaper,
	"sibling":       shapeSibling,
	"silent":        shapeSilent,
	"namespace":     shapeNamespace,
	"usernamespace": shapeUserNamespace,
	"leaderless":    shapeLeaderless,
	"stopped":       shapeStopped,
	"parricide":     shapeParricide,
	"endless":       func() { shapeEndless() },
	"endlessclear":  func() { again("endless") },
	"bomb":          func() { shapeBomb(false) },
	"bombs":         func() { shapeBomb(true) },
	"bombclear":     func() { again("bombs") },
	"rogue":         func() { shapeRogue(false) },
	"rogueorphan":   func() { shapeRogue(true) },
	"group":         shapeGroup,
	"orphans":       shapeOrphans,
	"survivor":      shapeSurvivor,
	"join":          shapeJoin,
	"foreign":       shapeForeign,
	"autoreap":      shapeAutoreap,
	"nested":        shapeNested,
	"otheruser":     shapeOtherUser,
}

func runShape(name string) { shapes[name]() }

//go:norace
func fork(flags uintptr) uintptr {
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if errno != 0 {
		return ^uintptr(0)
	}
	return pid
}

const plain = uintptr(unix.SIGCHLD)

//go:norace
func setsid() { syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0) }

//go:norace
func exit() { exitWith(0) }

// exitWith ends without a word of the race detector, which would sleep a second.
//
//go:norace
func exitWith(code uintptr) {
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, code, 0, 0)
	}
}

//go:norace
func dot() {
	b := [1]byte{'.'}
	syscall.RawSyscall(syscall.SYS_WRITE, 1, uintptr(unsafe.Pointer(&b)), 1)
}

//go:norace
func rest() {
	for {
		syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}

//go:norace
func nap() {
	ts := [2]int64{0, 1_000_000}
	syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// detached forks a process of its own session that rests. Its parent is the
// caller.
//
//go:norace
func detached(flags uintptr) {
	if fork(flags) == 0 {
		setsid()
		dot()
		rest()
	}
}

// orphan forks such a process by a parent that exits.
//
//go:norace
func orphan() {
	if fork(plain) == 0 {
		detached(plain)
		exit()
	}
}

//go:norace
func shapeSetsid() { detached(plain); dot(); rest() }

//go:norace
func shapeDouble() { orphan(); dot(); rest() }

// shapeCleared: the orphan has executed a program without an environment.
//
//go:norace
func shapeCleared() {
	path, argv, env := execArgs("one")
	if fork(plain) == 0 {
		if fork(plain) == 0 {
			setsid()
			syscall.RawSyscall(syscall.SYS_EXECVE, path, argv, env)
		}
		exit()
	}
	dot()
	rest()
}

// again executes another shape without an environment.
//
//go:norace
func again(shape string) {
	path, argv, env := execArgs(shape)
	syscall.RawSyscall(syscall.SYS_EXECVE, path, argv, env)
}

// execMemory keeps what execArgs points to.
var execMemory struct {
	path *byte
	argv []*byte
	env  []*byte
}

func execArgs(shape string) (path, argv, env uintptr) {
	exe, _ := os.Executable()
	m := &execMemory
	m.path, _ = syscall.BytePtrFromString(exe)
	m.argv, _ = syscall.SlicePtrFromStrings([]string{exe, "shape", shape, os.Args[3]})
	m.env = []*byte{nil}
	return uintptr(unsafe.Pointer(m.path)), uintptr(unsafe.Pointer(&m.argv[0])), uintptr(unsafe.Pointer(&m.env[0]))
}

//go:norace
func shapeDeaf() {
	signal.Ignore(unix.SIGTERM, unix.SIGHUP, unix.SIGINT)
	orphan()
	dot()
	rest()
}

//go:norace
func shapeSessions() {
	for range 200 {
		detached(plain)
	}
	dot()
	rest()
}

// shapeChain: 50 generations, of which the last lives.
//
//go:norace
//go:norace
func shapeChain() {
	if fork(plain) == 0 {
		for range 50 {
			if fork(plain) != 0 {
				exit()
			}
			setsid()
		}
		dot()
		rest()
	}
	dot()
	rest()
}

// shapeSubreaper: 20 orphans hidden below a subreaper inside.
//
//go:norace
//go:norace
func shapeSubreaper() {
	if fork(plain) == 0 {
		setsid()
		syscall.RawSyscall6(syscall.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0, 0)
		for range 20 {
			orphan()
		}
		dot()
		rest()
	}
	dot()
	rest()
}

// shapeSibling: children of main's parent, which is the owner.
//
//go:norace
func shapeSibling() {
	for range 3 {
		detached(unix.CLONE_PARENT | plain)
	}
	dot()
	rest()
}

// shapeSilent: children that send no signal when they end.
//
//go:norace
func shapeSilent() {
	for range 5 {
		detached(0)
	}
	detached(unix.CLONE_PARENT)
	dot()
	rest()
}

//go:norace
func shapeNamespace() {
	for range 2 {
		detached(unix.CLONE_NEWPID | plain)
	}
	dot()
	rest()
}

//go:norace
func shapeUserNamespace() {
	for range 2 {
		detached(unix.CLONE_NEWUSER | unix.CLONE_NEWPID | plain)
	}
	dot()
	rest()
}

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
// pause.
//
//go:norace
//go:norace
func shapeEndless() {
	for range 8 {
		if fork(plain) == 0 {
			dot()
			for {
				if pid := fork(plain); pid != 0 {
					if pid == ^uintptr(0) {
						continue
					}
					exit()
				}
				setsid()
			}
		}
	}
	dot()
	rest()
}

const bombSize = 150

// shapeBomb: everybody forks whenever there are fewer than bombSize. Who has
// lost children makes room for others.
//
//go:norace
//go:norace
func shapeBomb(sessions bool) {
	b, _ := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	living := (*int32)(unsafe.Pointer(&b[0]))
	dotted := (*int32)(unsafe.Pointer(&b[4]))
	for {
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
