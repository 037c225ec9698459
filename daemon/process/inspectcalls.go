package process

import (
	"maps"

	"golang.org/x/sys/unix"
)

// call is a system call that programs sleep in.
type call struct {
	name string
	fd   bool // its first argument is a descriptor, and what it waits for
}

// calls are those that every 64-bit architecture has, and those that only older
// ones have (see oldCalls). What is not here is shown by its number.
var calls = func() map[uintptr]call {
	all := map[uintptr]call{
		unix.SYS_READ:            {"read", true},
		unix.SYS_WRITE:           {"write", true},
		unix.SYS_READV:           {"readv", true},
		unix.SYS_WRITEV:          {"writev", true},
		unix.SYS_PREAD64:         {"pread64", true},
		unix.SYS_PWRITE64:        {"pwrite64", true},
		unix.SYS_PREADV:          {"preadv", true},
		unix.SYS_PWRITEV:         {"pwritev", true},
		unix.SYS_SENDFILE:        {"sendfile", true},
		unix.SYS_SPLICE:          {"splice", true},
		unix.SYS_TEE:             {"tee", true},
		unix.SYS_VMSPLICE:        {"vmsplice", true},
		unix.SYS_COPY_FILE_RANGE: {"copy_file_range", true},
		unix.SYS_IOCTL:           {"ioctl", true},
		unix.SYS_FCNTL:           {"fcntl", true},
		unix.SYS_FLOCK:           {"flock", true},
		unix.SYS_FSYNC:           {"fsync", true},
		unix.SYS_FDATASYNC:       {"fdatasync", true},
		unix.SYS_FTRUNCATE:       {"ftruncate", true},
		unix.SYS_FALLOCATE:       {"fallocate", true},
		unix.SYS_GETDENTS64:      {"getdents64", true},
		unix.SYS_CLOSE:           {"close", true},
		unix.SYS_ACCEPT:          {"accept", true},
		unix.SYS_ACCEPT4:         {"accept4", true},
		unix.SYS_CONNECT:         {"connect", true},
		unix.SYS_RECVFROM:        {"recvfrom", true},
		unix.SYS_RECVMSG:         {"recvmsg", true},
		unix.SYS_RECVMMSG:        {"recvmmsg", true},
		unix.SYS_SENDTO:          {"sendto", true},
		unix.SYS_SENDMSG:         {"sendmsg", true},
		unix.SYS_SENDMMSG:        {"sendmmsg", true},
		unix.SYS_EPOLL_PWAIT:     {"epoll_pwait", true},
		unix.SYS_EPOLL_PWAIT2:    {"epoll_pwait2", true},
		unix.SYS_IO_URING_ENTER:  {"io_uring_enter", true},
		unix.SYS_PPOLL:           {"ppoll", false},
		unix.SYS_PSELECT6:        {"pselect6", false},
		unix.SYS_IO_GETEVENTS:    {"io_getevents", false},
		unix.SYS_IO_PGETEVENTS:   {"io_pgetevents", false},
		unix.SYS_WAIT4:           {"wait4", false},
		unix.SYS_WAITID:          {"waitid", false},
		unix.SYS_NANOSLEEP:       {"nanosleep", false},
		unix.SYS_CLOCK_NANOSLEEP: {"clock_nanosleep", false},
		unix.SYS_FUTEX:           {"futex", false},
		unix.SYS_FUTEX_WAITV:     {"futex_waitv", false},
		unix.SYS_RT_SIGTIMEDWAIT: {"rt_sigtimedwait", false},
		unix.SYS_RT_SIGSUSPEND:   {"rt_sigsuspend", false},
		unix.SYS_RESTART_SYSCALL: {"restart_syscall", false},
		unix.SYS_OPENAT:          {"openat", false}, // sleeps at a FIFO without another end
		unix.SYS_OPENAT2:         {"openat2", false},
		unix.SYS_EXECVE:          {"execve", false},
		unix.SYS_CLONE:           {"clone", false}, // sleeps as vfork
		unix.SYS_CLONE3:          {"clone3", false},
		unix.SYS_EXIT:            {"exit", false},
		unix.SYS_EXIT_GROUP:      {"exit_group", false},
		unix.SYS_MMAP:            {"mmap", false},
		unix.SYS_MUNMAP:          {"munmap", false},
		unix.SYS_MSYNC:           {"msync", false},
		unix.SYS_SYNC:            {"sync", false},
		unix.SYS_SYNCFS:          {"syncfs", true},
		unix.SYS_UNLINKAT:        {"unlinkat", false},
		unix.SYS_MOUNT:           {"mount", false},
		unix.SYS_UMOUNT2:         {"umount2", false},
		unix.SYS_KILL:            {"kill", false}, // where whoever stops itself is stopped
		unix.SYS_TGKILL:          {"tgkill", false},
		unix.SYS_PTRACE:          {"ptrace", false},
		unix.SYS_SCHED_YIELD:     {"sched_yield", false},
		unix.SYS_MQ_TIMEDRECEIVE: {"mq_timedreceive", true},
		unix.SYS_MQ_TIMEDSEND:    {"mq_timedsend", true},
		unix.SYS_MSGRCV:          {"msgrcv", false},
		unix.SYS_MSGSND:          {"msgsnd", false},
		unix.SYS_SEMOP:           {"semop", false},
		unix.SYS_SEMTIMEDOP:      {"semtimedop", false},
	}
	maps.Copy(all, oldCalls)
	return all
}()
