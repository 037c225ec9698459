package process

import "golang.org/x/sys/unix"

// oldCalls are those that newer architectures do without.
var oldCalls = map[uintptr]call{
	unix.SYS_OPEN:       {"open", false}, // sleeps at a FIFO without another end
	unix.SYS_EPOLL_WAIT: {"epoll_wait", true},
	unix.SYS_POLL:       {"poll", false},
	unix.SYS_SELECT:     {"select", false},
	unix.SYS_PAUSE:      {"pause", false},
	unix.SYS_VFORK:      {"vfork", false},
	unix.SYS_FORK:       {"fork", false},
	unix.SYS_UNLINK:     {"unlink", false},
}
