package daemon

import (
	"context"
	"os"
	"testing"

	"execworker/daemon/observe"
	"execworker/daemon/process"
	"execworker/daemon/runner"
)

// dropped is an Output that nobody reads.
type dropped struct{}

func (dropped) Put(_ runner.Stream, s *runner.Slab) *runner.Slab { return reset(s) }

// unwatched is a Watcher that does nothing.
type unwatched struct{}

func (unwatched) MainEnded()           {}
func (unwatched) Killing(error)        {}
func (unwatched) Killed(process.Sweep) {}

// What a kill could not end cannot be made on purpose; here it is what a command
// left, followed as if a kill had failed.
func TestAbortOfSurvivorsReachesWhatIsNotContained(t *testing.T) {
	owner, err := process.NewOwner(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	run, err := runner.Start(owner, runner.Command{Text: "sleep 300 >/dev/null 2>&1 & exit 0", Env: os.Environ()}, dropped{})
	if err != nil {
		t.Fatal(err)
	}
	run.Wait(t.Context(), unwatched{})
	defer func() { <-run.Tree().Gone() }()
	defer run.Tree().Sweep()

	s := &survivors{over: make(chan struct{}), trees: make(map[uint64]survivor)}
	x := &execution{d: &Daemon{observer: observe.Observers{}}, exec: observe.Exec{Seq: 7}, ctx: context.Background()}
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		s.follow(x, run, true)
	}()
	<-run.Tree().Settled()
	for !s.abort(7) {
		select {
		case <-followed:
			t.Fatal("nothing was left to follow")
		default: // it is about to be listed
		}
	}
	<-followed
	if len(run.Tree().Members()) != 0 || s.count() != 0 {
		t.Error("it was not swept")
	}
}
