package process

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// dial returns a script that connects to a listener of ours.
func dial(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return "exec 7<>/dev/tcp/127.0.0.1/" + port + "; "
}

func socketOf(t *testing.T, pid, fd int) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/fd/%d", pid, fd), &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// A zombie holds nothing, though others than root may not look at its folder.
// There may be much else that we may not read, and all of it is from outside.
func TestHoldersAreNotHiddenByWhatHasNone(t *testing.T) {
	o := startOwner(t, nicely)
	s := startBash(t, o, "sleep 0 & exec sleep 300")
	i := s.waitInspect(o, true, func(i Inspection) bool {
		_, zombie := find(i, func(d Detail) bool { return d.State == "Z" })
		return zombie && i.Processes[0].Name == "sleep"
	})
	if len(i.Unreadable) > 0 {
		t.Errorf("unreadable: %q", i.Unreadable)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		_, hidden := o.Holders(1 << 40)
		if !hidden {
			return
		}
		// Trees of another owner look like ours, if it was here before us. One that
		// ends meanwhile is a reason to look again.
		if others := strangers(t, o); len(others) > 0 {
			t.Skip("another owner runs on this machine: ", others)
		}
		if time.Now().After(deadline) {
			t.Fatal("something of ours is said to be unreadable")
		}
	}
}

// strangers bear numbers below our first one, and are not below us.
func strangers(t *testing.T, o *Owner) (pids []int) {
	t.Helper()
	table, err := openTable()
	if err != nil {
		t.Fatal(err)
	}
	defer table.close()
	table.each(func(e entry) bool {
		tag, err := o.kernel.tagOf(e.pid)
		if err == nil && !o.tags.foreign(tag) && !ancestors(e.pid)[os.Getpid()] {
			pids = append(pids, e.pid)
		}
		return true
	})
	return pids
}

// ancestors are the numbers from a process up.
func ancestors(pid int) map[int]bool {
	all := map[int]bool{}
	for pid > 0 && !all[pid] {
		all[pid] = true
		s, err := readStat(pid)
		if err != nil {
			break
		}
		pid = s.ppid
	}
	return all
}

func TestHoldersAreAllWhoHaveTheSocket(t *testing.T) {
	o := startOwner(t, nicely)
	script := dial(t)
	startBash(t, o, dial(t)+"echo; exec sleep 300").waitLine() // has another
	s := startBash(t, o, script+"setsid sleep 300 & echo $!; exec sleep 301")
	child, _ := strconv.Atoi(s.waitLine())
	holders, _ := o.Holders(socketOf(t, s.PID(), 7))
	if len(holders) != 2 {
		t.Fatalf("got %+v", holders)
	}
	for _, h := range holders {
		if h.Tree != s.Tree || !h.Descendant || h.Process.PID != s.PID() && h.Process.PID != child {
			t.Errorf("got %+v", h)
		}
	}
}

func TestHoldersNameUs(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	o := startOwner(t, nicely)
	holders, _ := o.Holders(socketOf(t, os.Getpid(), pair[0]))
	if len(holders) != 1 || holders[0].Process.PID != os.Getpid() || holders[0].Descendant {
		t.Errorf("got %+v", holders)
	}
	holders, _ = o.Holders(1 << 40)
	if len(holders) != 0 {
		t.Errorf("of no socket: %+v", holders)
	}
}

// An outsider found in half a table does not stand for all.
func TestHoldersWithoutTimeAreHidden(t *testing.T) {
	o := startOwner(t, nicely)
	if holders, hidden := o.holders(1, time.Now().Add(-time.Second)); len(holders) != 0 || !hidden {
		t.Errorf("got %+v, %v", holders, hidden)
	}
	s := startBash(t, o, "echo; exec sleep 300")
	s.waitLine()
	list := []Origin{o.Origin(os.Getpid()), o.Origin(s.PID())}
	if got := descendantsOnly(list); len(got) != 1 || got[0].Tree != s.Tree {
		t.Errorf("got %+v", got)
	}
}

// Between fork and exec a child has all our descriptors. A spawn under way is
// waited for, and what its command has is what counts.
func TestHoldersWaitForASpawnUnderWay(t *testing.T) {
	var main atomic.Int64
	var looks atomic.Int32
	var s *subject
	o := startChangedOwner(t, nicely, func(k *kernel) {
		tagOf := k.tagOf
		k.tagOf = func(pid int) (uint64, error) {
			if int64(pid) == main.Load() && looks.Add(1) == 3 {
				s.owner.mu.Lock()
				s.Tree.pid = pid
				s.owner.mu.Unlock()
			}
			return tagOf(pid)
		}
	})
	s = startBash(t, o, dial(t)+"echo; exec sleep 300")
	s.waitLine()
	pid := s.PID()
	inode := socketOf(t, pid, 7)
	o.mu.Lock()
	s.Tree.pid = 0 // as while it is being made
	o.mu.Unlock()
	main.Store(int64(pid))
	holders, _ := o.Holders(inode)
	if len(holders) != 1 || holders[0].Tree != s.Tree || looks.Load() < 3 {
		t.Errorf("got %+v after %d looks", holders, looks.Load())
	}
}
