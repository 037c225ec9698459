package process

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// pipeScan looks for holders of pipes.
type pipeScan struct {
	o       *Owner
	ctx     context.Context
	until   time.Time
	wanted  map[uint64]place
	visited map[int]bool
	files   descriptors
}

// place is a pipe's in its exec.
type place struct {
	subject *examined
	stream  int
}

// hold is a process that holds the pipe of a place.
type hold struct {
	place
	pid    int
	fd     int
	writes bool
}

// examinePipes finds who holds the pipes of all subjects: among the members, and
// in the whole table what no member holds, for a pipe can be passed on. This
// program, which has the other ends, is not among them.
func (o *Owner) examinePipes(ctx context.Context, all []*examined, until time.Time) {
	scan := &pipeScan{o: o, ctx: ctx, until: until, wanted: map[uint64]place{}, visited: map[int]bool{o.signals.self: true}, files: newDescriptors()}
	for _, s := range all {
		for stream, inode := range s.Pipes {
			if inode != 0 {
				scan.wanted[inode] = place{s, stream}
			}
		}
	}
	holds := map[*examined][]hold{}
	add := func(found []hold) {
		for _, h := range found {
			holds[h.subject] = append(holds[h.subject], h)
		}
	}
	for _, s := range all {
		for _, m := range s.members {
			found, err := scan.visit(m.pid)
			add(found)
			if err != nil {
				s.gaps.add("the open files", err, m.pid)
			}
		}
	}
	for _, found := range holds {
		for _, h := range found {
			delete(scan.wanted, h.subject.Pipes[h.stream])
		}
	}
	if len(scan.wanted) > 0 {
		add(scan.rest())
	}
	for s, found := range holds {
		s.hold(found)
	}
}

// rest visits the whole table for what is still wanted.
func (p *pipeScan) rest() (holds []hold) {
	miss := func(err error, pid int) {
		missed := map[*examined]bool{}
		for _, at := range p.wanted {
			if !missed[at.subject] {
				missed[at.subject] = true
				at.subject.gaps.add("the open files outside its tree", err, pid)
			}
		}
	}
	table, err := openTable()
	if err != nil {
		miss(err, 0)
		return nil
	}
	defer table.close()
	table.each(func(e entry) bool {
		found, err := p.visit(e.pid)
		holds = append(holds, found...)
		if err == errNoTime {
			miss(err, 0)
			return false
		}
		if err != nil {
			miss(err, e.pid)
		}
		return true
	})
	return holds
}

// visit looks at the descriptors of a process, once. A process that has gone
// holds nothing.
func (p *pipeScan) visit(pid int) ([]hold, error) {
	if p.visited[pid] {
		return nil, nil
	}
	if passedOrDone(p.ctx, p.until) {
		return nil, errNoTime
	}
	p.visited[pid] = true
	holds, err := p.read(pid)
	if (len(holds) > 0 || denied(err)) && p.o.awaitSpawn(pid) {
		holds, err = p.read(pid)
	}
	if err == unix.ENOENT || err == unix.ESRCH || denied(err) && p.o.hasEnded(pid) {
		err = nil
	}
	return holds, err
}

func (p *pipeScan) read(pid int) (holds []hold, err error) {
	n := 0
	err = p.files.each(pid, func(fd int, target []byte) bool {
		if n++; n%256 == 0 && passedOrDone(p.ctx, p.until) {
			return false
		}
		inode, ok := pipeInode(target)
		at, wanted := p.wanted[inode]
		if !ok || !wanted {
			return true
		}
		h := hold{place: at, pid: pid, fd: fd, writes: writable(pid, fd)}
		same := slices.IndexFunc(holds, func(other hold) bool { return other.place == at })
		switch {
		case same < 0:
			holds = append(holds, h)
		case h.writes && !holds[same].writes:
			holds[same] = h
		}
		return true
	})
	if err == errStopped {
		err = errNoTime
	}
	return holds, err
}

// pipeInode reads pipe:[812].
func pipeInode(target []byte) (uint64, bool) {
	digits, ok := bytes.CutPrefix(target, []byte("pipe:["))
	if !ok {
		return 0, false
	}
	inode, err := strconv.ParseUint(string(bytes.TrimSuffix(digits, []byte("]"))), 10, 64)
	return inode, err == nil
}

// writable reads the flags of a descriptor, which are octal (proc_pid_fdinfo(5)).
func writable(pid, fd int) bool {
	var buf [256]byte
	b, _ := readProc(pid, "fdinfo/"+strconv.Itoa(fd), buf[:])
	_, rest, _ := strings.Cut(string(b), "flags:\t")
	line, _, _ := strings.Cut(rest, "\n")
	flags, err := strconv.ParseUint(line, 8, 32)
	return err == nil && flags&unix.O_ACCMODE != unix.O_RDONLY
}

// hold lists the holders: main, members, others, and of those the ones that can
// write first, for they keep an output from its end.
func (s *examined) hold(found []hold) {
	slices.SortFunc(found, func(a, b hold) int {
		return cmp.Or(
			-cmp.Compare(s.closeness(a), s.closeness(b)),
			cmp.Compare(a.pid, b.pid),
			cmp.Compare(a.stream, b.stream),
		)
	})
	if more := len(found) - listedMost; more > 0 {
		s.Unreadable = append(s.Unreadable, fmt.Sprintf("%d more holders of its pipes are not listed", more))
		found = found[:listedMost]
	}
	for _, h := range found {
		if listed, ok := s.holder(h); ok {
			s.Holders = append(s.Holders, listed)
		}
	}
}

func (s *examined) closeness(h hold) (points int) {
	main, member := s.family[h.pid]
	if main {
		points += 4
	}
	if member {
		points += 2
	}
	if h.writes {
		points++
	}
	return points
}

// holder describes one; ok is false if it has gone meanwhile.
func (s *examined) holder(h hold) (Holder, bool) {
	f, err := openFolder(h.pid)
	if err != nil {
		return Holder{}, false
	}
	defer f.close()
	st, err := f.stat()
	if err != nil {
		return Holder{}, false
	}
	_, member := s.family[h.pid]
	return Holder{
		Process: met{pid: h.pid, stat: st}.process(), Command: f.command(st.state, &s.gaps), Session: st.session,
		Stream: h.stream, FD: h.fd, Writes: h.writes, Member: member,
	}, true
}
