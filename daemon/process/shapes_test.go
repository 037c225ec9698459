package process

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Shapes of trees. Each runs in a process of its own, as main. Processes are
// made with a bare fork, so that a tree of hundreds is cheap: after it only
// system calls are made, because all other threads of the Go program are gone.

var shapes = map[string]func(){
	"one":            func() { dot(); rest() },
	"exit":           func() { exitWith(7) },
	"setsid":         shapeSetsid,
	"double":         shapeDouble,
	"cleared":        shapeCleared,
	"deaf":           shapeDeaf,
	"sessions":       shapeSessions,
	"orphansessions": func() { sessions(); exit() },
	"chain":          shapeChain,
	"subreaper":      shapeSubreaper,
	"sibling":        shapeSibling,
	"silent":         shapeSilent,
	"namespace":      shapeNamespace,
	"usernamespace":  shapeUserNamespace,
	"leaderless":     shapeLeaderless,
	"stopped":        shapeStopped,
	"parricide":      shapeParricide,
	"endless":        func() { shapeEndless() },
	"endlessclear":   func() { again("endless") },
	"bomb":           func() { shapeBomb(false) },
	"bombs":          func() { shapeBomb(true) },
	"bombclear":      func() { again("bombs") },
	"rogue":          func() { shapeRogue(false) },
	"rogueorphan":    func() { shapeRogue(true) },
	"group":          shapeGroup,
	"orphans":        shapeOrphans,
	"survivor":       shapeSurvivor,
	"join":           shapeJoin,
	"foreign":        shapeForeign,
	"autoreap":       shapeAutoreap,
	"nested":         shapeNested,
	"otheruser":      shapeOtherUser,
	"undumpable":     shapeUndumpable,
	"vfork":          shapeVfork,
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

// rest does nothing for two minutes: should a test fail, what it leaves does not
// stay.
//
//go:norace
func rest() {
	for end := seconds() + 120; seconds() < end; { // a signal ends a sleep
		ts := [2]int64{120, 0}
		syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
	}
	exit()
}

// seconds is the age of the system.
//
//go:norace
func seconds() int64 {
	var ts [2]int64
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&ts)), 0)
	return ts[0]
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
func sessions() {
	for range 200 {
		detached(plain)
	}
}

func shapeSessions() { sessions(); dot(); rest() }

// shapeChain: 50 generations, of which the last lives.
//
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
