package process

import (
	"slices"

	"golang.org/x/sys/unix"
)

// mayBeMainLocked says whether a child of ours that is in no book may be a main
// that has changed its number before Spawn has entered it. Then its number is no
// reason to kill it, and its status is not for us to reap. It can be the main
// of none but the spawns that were under way when it was first seen: those that
// begin later do not save it. read says that its number could be read: a main
// with another number than its own has executed its program, so it leads its
// session.
//
// A spawn that hangs before that need not be told apart: the Go runtime cannot
// stop a thread in vfork(2), so that its next collection stops all of this
// program until the spawn goes on.
func (o *Owner) mayBeMainLocked(pid int, read bool) bool {
	flights, seen := o.unsure[pid]
	if !seen && (!read || leadsSession(pid)) {
		flights = slices.Clone(o.flights)
	}
	if seen && len(flights) == 0 {
		return false
	}
	flights = slices.DeleteFunc(flights, func(f *flight) bool { return f.landed })
	o.unsure[pid] = flights
	return len(flights) > 0
}

// leadsSession is true of a zombie too.
func leadsSession(pid int) bool {
	session, err := unix.Getsid(pid)
	return err != nil || session == pid
}

// landedLocked is the end of a flight: its main is in the books, or there is none.
func (o *Owner) landedLocked(f *flight) {
	f.landed = true
	o.flights = slices.DeleteFunc(o.flights, func(other *flight) bool { return other == f })
}
