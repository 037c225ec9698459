package process

import (
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// descriptors reads /proc/<pid>/fd, with buffers kept for all processes and
// without an allocation a descriptor. Not safe for concurrent use.
type descriptors struct {
	names []byte
	link  []byte
}

func newDescriptors() descriptors {
	return descriptors{names: make([]byte, 16<<10), link: make([]byte, 64)}
}

// each calls visit for every descriptor of a process, with what it is: pipe:[812],
// socket:[813] or the first 64 bytes of a path. It returns errStopped when visit
// has said so; unix.EACCES where we may not look; unix.ENOENT or unix.ESRCH when
// the process has gone.
func (d *descriptors) each(pid int, visit func(fd int, target []byte) (goOn bool)) error {
	dir, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	var refused error
	err = eachName(dir, d.names, func(_ uint64, name []byte) bool {
		if name[0] == '.' {
			return true
		}
		n, err := readLink(dir, name, d.link)
		switch err {
		case 0:
			return visit(number(name), d.link[:n])
		case unix.ENOENT: // closed meanwhile
			return true
		}
		// Root without CAP_SYS_PTRACE may list what it may not look at.
		refused = err
		return false
	})
	if refused != nil {
		return refused
	}
	return err
}

// readLink takes a name as the kernel gave it, with its NUL.
func readLink(dir int, name, link []byte) (int, unix.Errno) {
	n, _, errno := unix.Syscall6(unix.SYS_READLINKAT, uintptr(dir),
		uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(&link[0])), uintptr(len(link)), 0, 0)
	return int(n), errno
}

// hasEnded says that no thread of a process runs any more, reaped or not: then
// it holds no file. Of a zombie the folder fd is root's, and refused to others.
func (o *Owner) hasEnded(pid int) bool {
	pidfd, err := o.kernel.pidfdOpen(pid)
	if err != nil {
		return unfenced(err) == foundNobody
	}
	defer unix.Close(pidfd)
	return dead(pidfd)
}

const (
	spawnLooks = 100 // at a process that is still to execute its program
	spawnPause = 200 * time.Microsecond
)

// awaitSpawn waits for the end of the spawn that pid is being made by, if it is.
// Until then it has copies of all our descriptors, and those say nothing. It
// returns whether it may have waited.
func (o *Owner) awaitSpawn(pid int) (waited bool) {
	if o.tags.carried() {
		o.mu.Lock() // which Spawn holds at this level while it forks
		defer o.mu.Unlock()
		return true
	}
	for range spawnLooks {
		tag, err := o.kernel.tagOf(pid)
		if err != nil {
			return waited
		}
		o.mu.Lock()
		t := o.trees[tag]
		unborn := t != nil && t.pid == 0
		o.mu.Unlock()
		if !unborn {
			return waited
		}
		waited = true
		pause(spawnPause)
	}
	return waited
}
