package process

import (
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// 8.10: 16 goroutines spawn side by side.
func TestTagsAreNeverShared(t *testing.T) {
	total := 2000
	if testing.Short() {
		total = 400
	}
	if os.Getenv("LONG") != "" {
		total = 10_000
	}
	o := startOwner(t, Options{})
	var mu sync.Mutex
	seen := make(map[uint64]bool)
	var wg sync.WaitGroup
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	fd := int(null.Fd())
	for range 16 {
		wg.Go(func() {
			for range total / 16 {
				tree, err := o.Spawn(Command{Path: "/bin/bash", Args: []string{"bash", "-c", ":", markerPrefix()}, Files: [3]int{fd, fd, fd}})
				if err != nil {
					t.Error(err)
					return
				}
				tag, err := o.tags.of(tree.PID()) // it is not reaped, so it answers
				if err != nil || tag != tree.tag {
					t.Errorf("main bears %d, the books say %d, %v", tag, tree.tag, err)
				}
				mu.Lock()
				if seen[tag] {
					t.Errorf("%d was given out twice", tag)
				}
				seen[tag] = true
				mu.Unlock()
				tree.Release()
			}
		})
	}
	wg.Wait()
	own, err := o.tags.of(os.Getpid())
	if err != nil || seen[own] || own != o.tags.own {
		t.Errorf("our own number is %d, %v", own, err)
	}
	for tag := range seen {
		if tag <= own || o.tags.foreign(tag) {
			t.Fatalf("%d is not between our number and our original limit", tag)
		}
	}
}

// Our own number is not the last tree's, though nothing else was spawned.
func TestTagsOwnIsNotTheLastTrees(t *testing.T) {
	o := startOwner(t, Options{})
	s := startBash(t, o, "exit 0")
	if own, err := o.tags.of(os.Getpid()); err != nil || own >= s.tag {
		t.Errorf("our own number is %d, the tree's %d, %v", own, s.tag, err)
	}
}

// Who may not ask for a limit reads it in /proc.
func TestTagsAreTheSameInProc(t *testing.T) {
	for _, limits := range [][]int{{unix.RLIMIT_LOCKS}, {unix.RLIMIT_RTTIME}} {
		withTagLimits(t, limits)
		o := startOwner(t, Options{})
		s := startBash(t, o, "sleep 100; true")
		if tag, err := o.tags.inFile(s.PID()); err != nil || tag != s.tag {
			t.Errorf("the file says %d, %v, want %d", tag, err, s.tag)
		}
		if tag, err := o.tags.inFile(unix.Getppid()); err != nil || !o.tags.foreign(tag) {
			t.Errorf("the file says %d, %v of our parent", tag, err)
		}
		s.wantSwept()
		o.Close()
	}
}
