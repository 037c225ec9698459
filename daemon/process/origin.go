package process

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Origin says where a process comes from.
type Origin struct {
	Process Process
	UID     int  // effective, in our user namespace; -1 when it cannot be read
	Found   bool // else there is no such process
	// Descendant: it came out of a tree, or cannot be told from one that did.
	Descendant bool
	Tree       *Tree // of a descendant; nil when none that is known
}

const (
	ancestryMost  = 4096 // hops from a process up; more is no ancestry but an attempt
	ancestryTries = 5    // at one hop, while parents end under the walk
)

// Origin finds out where pid comes from. Whoever bears a number below our own
// original limit has it from us, and whoever has us among its ancestors comes
// from us too: orphans of our trees are given to us. What vanishes or changes
// while it is looked at is taken for a descendant. This program is none.
func (o *Owner) Origin(pid int) Origin {
	if pid <= 0 {
		return Origin{}
	}
	origin := unknownOrigin(pid)
	pidfd, err := o.kernel.pidfdOpen(pid)
	switch {
	case err == nil:
		defer unix.Close(pidfd)
	case unfenced(err) == foundNobody:
		return Origin{}
	default:
		return origin
	}
	m := met{pid: pid}
	if m.tag, err = o.kernel.tagOf(pid); err != nil {
		return origin // it has gone, or is hidden from us
	}
	if m.stat, err = o.kernel.statOf(pid); err != nil {
		return origin
	}
	origin.Process = m.process()
	if origin.UID, err = effectiveUID(pid); err != nil {
		return origin
	}
	if pid == o.signals.self {
		origin.Descendant = false
		return origin
	}
	origin.Descendant, origin.Tree = o.ancestry(m)
	if dead(pidfd) { // else the number has been its own all the while
		origin.Descendant = true
	}
	return origin
}

// unknownOrigin is the worst that there is to say of a process.
func unknownOrigin(pid int) Origin {
	return Origin{Process: Process{PID: pid}, UID: -1, Found: true, Descendant: true}
}

// ancestry goes from a process up to us, or to the end.
func (o *Owner) ancestry(m met) (descendant bool, tree *Tree) {
	for range ancestryMost {
		descendant = descendant || !o.tags.foreign(m.tag)
		if tree = o.treeOf(m); tree != nil {
			return true, tree
		}
		switch m.stat.ppid {
		case o.signals.self:
			return true, nil
		case 0: // the first process, or one put into our PID namespace from outside
			return descendant, nil
		}
		parent, ok := o.parent(m)
		if !ok {
			return true, nil
		}
		m = parent
	}
	return true, nil
}

// treeOf is the tree that a process is a member of by itself.
func (o *Owner) treeOf(m met) *Tree {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t := o.trees[m.tag]; t != nil {
		return t
	}
	return o.mains[m.pid]
}

// parent reads the parent of m. Its number may become somebody else's, so m is
// asked again afterwards: if it still has that parent, the one that was read is
// it. A child whose parent has ended has another one, and is asked for that.
func (o *Owner) parent(m met) (parent met, ok bool) {
	for range ancestryTries {
		if m.stat.ppid == o.signals.self || m.stat.ppid == 0 {
			// Handed on meanwhile; the caller knows these two without reading.
			return m, true
		}
		parent = met{pid: m.stat.ppid}
		var failed error
		if parent.tag, failed = o.kernel.tagOf(parent.pid); failed == nil {
			parent.stat, failed = o.kernel.statOf(parent.pid)
		}
		again, err := o.kernel.statOf(m.pid)
		if err != nil || again.started != m.stat.started {
			return met{}, false
		}
		if failed == nil && again.ppid == m.stat.ppid {
			return parent, true
		}
		m.stat = again
	}
	return met{}, false
}

// effectiveUID reads the second number of the line Uid of /proc/<pid>/status,
// which everybody may (proc_pid_status(5)). The name, above it, has its newlines
// escaped.
func effectiveUID(pid int) (int, error) {
	var buf [1 << 10]byte
	b, err := readProc(pid, "status", buf[:])
	if err != nil {
		return -1, err
	}
	_, rest, _ := bytes.Cut(b, []byte("\nUid:\t"))
	fields := bytes.Fields(rest)
	if len(fields) < 2 {
		return -1, unix.ESRCH
	}
	return strconv.Atoi(string(fields[1]))
}

// Holders lists the processes that hold the socket of that inode. hidden says
// that some descendant has descriptors that we may not read, or that there was
// no time to read all: then it may be a holder, and only descendants are
// listed if any are. It reads the descriptors of all processes, for at most a
// second.
func (o *Owner) Holders(inode uint64) (holders []Origin, hidden bool) {
	return o.holders(inode, time.Now().Add(inspectMost))
}

func (o *Owner) holders(inode uint64, until time.Time) (holders []Origin, hidden bool) {
	table, err := openTable()
	if err != nil {
		return nil, true
	}
	defer table.close()
	h := socketScan{o: o, files: newDescriptors(), until: until}
	h.target = strconv.AppendUint([]byte("socket:["), inode, 10)
	h.target = append(h.target, ']')
	if !table.each(h.visit) {
		return descendantsOnly(h.holders), true
	}
	return h.holders, h.hidden
}

// descendantsOnly is for a list that may lack some: an outsider in it does not
// say that no descendant has the socket too.
func descendantsOnly(list []Origin) []Origin {
	return slices.DeleteFunc(list, func(o Origin) bool { return !o.Descendant })
}

// socketScan looks for the holders of one socket.
type socketScan struct {
	o       *Owner
	files   descriptors
	target  []byte
	until   time.Time
	holders []Origin
	hidden  bool
}

func (s *socketScan) visit(e entry) (goOn bool) {
	if passed(s.until) {
		return false
	}
	holds, err := s.read(e.pid)
	if (holds || denied(err)) && s.o.awaitSpawn(e.pid) {
		holds, err = s.read(e.pid)
	}
	switch {
	case holds:
		origin := s.o.Origin(e.pid)
		if !origin.Found { // gone since, but a holder when it asked
			origin = unknownOrigin(e.pid)
		}
		s.holders = append(s.holders, origin)
	case err == errNoTime:
		return false
	case err == nil || err == unix.ENOENT || err == unix.ESRCH:
	case !s.hidden: // being out of descriptors says no more than not being allowed to
		s.hidden = s.o.Origin(e.pid).Descendant && !s.o.hasEnded(e.pid)
	}
	return true
}

func (s *socketScan) read(pid int) (holds bool, err error) {
	n := 0
	err = s.files.each(pid, func(_ int, target []byte) bool {
		n++
		holds = bytes.Equal(target, s.target)
		return !holds && (n%256 != 0 || !passed(s.until))
	})
	if err == errStopped {
		err = nil
		if !holds {
			err = errNoTime
		}
	}
	return holds, err
}
