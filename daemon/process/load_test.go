package process

import (
	"os"
	"strconv"
	"sync"
	"testing"
)

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// 8.22.
func TestSpawnUnderLoadLosesNoStatusAndLeavesNothing(t *testing.T) {
	total := 1000
	if testing.Short() {
		total = 200
	}
	before := openDescriptors(t)
	o, err := NewOwner(Options{})
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(null.Fd())
	marker := newMarker()
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range total / 16 {
				code := (g*31 + i) % 250
				script := "(: & : &) & (: &); exit " + strconv.Itoa(code)
				tree, err := o.Spawn(Command{Path: "/bin/bash", Args: []string{"bash", "-c", script, marker}, Files: [3]int{fd, fd, fd}})
				if err != nil {
					t.Error(err)
					return
				}
				if i%3 == 0 {
					<-tree.Done()
				}
				exit := tree.Release()
				if i%5 == 0 {
					if sweep := tree.Sweep(); !sweep.Proven() {
						t.Errorf("not contained: %+v", sweep)
					}
				}
				if exit.Code != code || exit.Signal != 0 {
					t.Errorf("exit is %+v, want code %d", exit, code)
				}
			}
		})
	}
	wg.Wait()
	waitFor(t, "all trees to be gone", func() bool { return o.Counts().Trees == 0 })
	o.mu.Lock()
	pids, err := o.children.listLocked()
	o.mu.Unlock()
	if err != nil || len(pids) > 0 {
		t.Errorf("we have children left: %v, %v", pids, err)
	}
	wantBearing(t, marker, 0)
	if c := o.Counts(); c.Zombies != 0 || c.Rogues != 0 {
		t.Errorf("counts are %+v", c)
	}
	o.Close()
	null.Close()
	if after := openDescriptors(t); after > before {
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
}

// Where the kernel has no lists of children, the table tells who is ours.
func TestTreeIsContainedWithoutListsOfChildren(t *testing.T) {
	o := startOwner(t, nicely)
	o.mu.Lock()
	o.children.leader.close()
	o.mu.Unlock()
	sibling := startShape(t, o, "sibling", 4)
	for _, shape := range []string{"double", "silent", "subreaper"} {
		startShape(t, o, shape, 2).wantSwept()
	}
	wantBearing(t, sibling.marker, 4)
}
