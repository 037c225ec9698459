package process

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// tags gives out the numbers that tell trees apart. A number lives in a
// resource limit that binds nobody: the kernel copies it at every fork,
// whatever the child does to its session, parent, environment, namespaces or
// user, and an unprivileged process can lower it but never raise it again.
//
// RLIMIT_LOCKS has had no effect since Linux 2.4.25 (getrlimit(2)).
// RLIMIT_RTTIME counts microseconds of real-time scheduling; near 2^61 it
// binds nobody either. With neither, the number travels in the environment.
//
// next and lower want the gate, which is held until the fork has copied the
// number; the other methods may be called at any time.
type tags struct {
	resource int    // of the limit; noResource when the environment carries the number
	original uint64 // our own hard limit before we lowered it
	own      uint64 // our own number now, which is never a tree's
}

const (
	noResource = -1

	envTag = "EXECWORKER_TREE" // carries the number at the reduced level

	tagStart   = 1 << 61
	tagSpread  = 1 << 40 // the first number is a random one of so many below the start
	tagLeast   = 1 << 20 // a hard limit below this leaves too little room to go down
	tagMaxStep = 1 << 32
)

// tagLimits are the limits that can carry a number, best first. Tests take some
// away.
var tagLimits = []int{unix.RLIMIT_LOCKS, unix.RLIMIT_RTTIME}

var errTagsUsedUp = errors.New("tag: no numbers left below our own limit")

// newTags lowers our own number for the first time, in the first limit that lets it.
func newTags() (*tags, error) {
	for _, resource := range tagLimits {
		t := &tags{resource: resource}
		if t.enter() == nil {
			return t, nil
		}
	}
	// The number starts at random so that a worker inside another one's tree
	// does not meet the numbers of the outer.
	return &tags{resource: noResource, original: math.MaxUint64, own: tagStart - rand.Uint64N(tagSpread)}, nil
}

func (t *tags) enter() error {
	var old unix.Rlimit
	if err := unix.Prlimit(0, t.resource, nil, &old); err != nil {
		return err
	}
	if old.Max < tagLeast {
		return fmt.Errorf("tag: our own hard limit is %d", old.Max)
	}
	t.original = old.Max
	t.own = min(old.Max, tagStart)
	return t.lower(min(tagSpread, t.own/2))
}

func (t *tags) level() string {
	if t.carried() {
		return LevelReduced
	}
	return LevelBase
}

// next gives our process a number that nobody bears, for a child to inherit.
// Steps are random and secret, so that no process can lower itself onto a
// sibling's number but by reading it from a process of the sibling's.
func (t *tags) next() (uint64, error) {
	err := t.lower(max(2, min(tagMaxStep, t.own>>12)))
	return t.own, err
}

// lower goes down by at least one and at most most.
func (t *tags) lower(most uint64) error {
	step := 1 + rand.Uint64N(most)
	if t.own <= step {
		return errTagsUsedUp
	}
	number := t.own - step
	if !t.carried() {
		limit := unix.Rlimit{Cur: number, Max: number}
		if err := unix.Prlimit(0, t.resource, &limit, nil); err != nil {
			return fmt.Errorf("tag: prlimit: %w", err)
		}
		var back unix.Rlimit
		if t.own >= t.original { // the first time: some user-space kernels accept and forget
			if err := unix.Prlimit(0, t.resource, nil, &back); err != nil || back != limit {
				return fmt.Errorf("tag: our number did not come back: %v", err)
			}
		}
	}
	t.own = number
	return nil
}

// foreign says that a number can only be that of a process from outside all trees.
func (t *tags) foreign(tag uint64) bool { return tag >= t.original }

// carried says that the number travels in the environment.
func (t *tags) carried() bool { return t.resource == noResource }

// environ adds the number where nothing else carries it.
func (t *tags) environ(env []string, tag uint64) []string {
	if !t.carried() {
		return env
	}
	carried := envTag + "=" + strconv.FormatUint(tag, 10)
	return append(env[:len(env):len(env)], carried)
}

// of reads the number of a process, living or not yet reaped. The hard limit
// counts: the soft one a process may move up and down.
func (t *tags) of(pid int) (uint64, error) {
	if t.carried() {
		return carriedTag(pid)
	}
	var limit unix.Rlimit
	err := unix.Prlimit(pid, t.resource, nil, &limit)
	if err == unix.EPERM {
		// Of another user, and we may not ask (prlimit(2)); the file may be
		// read by everybody. It costs some ten times as much.
		return t.inFile(pid)
	}
	return limit.Max, err
}

func (t *tags) inFile(pid int) (uint64, error) {
	row := "Max file locks"
	if t.resource == unix.RLIMIT_RTTIME {
		row = "Max realtime timeout"
	}
	var buf [2 << 10]byte // it has some 1 300 bytes
	b, err := readProc(pid, "limits", buf[:])
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(b), row)
	fields := strings.Fields(rest)
	if !found || len(fields) < 2 {
		return 0, unix.ESRCH // the file of a process that is gone is empty
	}
	if fields[1] == "unlimited" {
		return math.MaxUint64, nil
	}
	return strconv.ParseUint(fields[1], 10, 64)
}

// carriedTag is the reduced level: the environment that a process was started
// with, or else that of its nearest ancestor that has the number. What has
// cleared its environment and lost its parents is not found.
func carriedTag(pid int) (uint64, error) {
	for depth := 0; pid > 1 && pid != os.Getpid() && depth < 64; depth++ {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if at := strings.LastIndex("\x00"+string(b), "\x00"+envTag+"="); at >= 0 {
			value, _, _ := strings.Cut(string(b[at+len(envTag)+1:]), "\x00")
			if tag, err := strconv.ParseUint(value, 10, 64); err == nil {
				return tag, nil
			}
		}
		s, err := readStat(pid)
		if err != nil {
			return 0, err
		}
		pid = s.ppid
	}
	return math.MaxUint64, nil
}
