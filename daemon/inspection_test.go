package daemon

import (
	"context"
	"os"
	"reflect"
	"testing"
	"time"

	"execworker/daemon/observe"
	"execworker/daemon/process"
	"execworker/daemon/runner"
	"execworker/test/relaytest"
)

// Every field gets across.
func TestInspectionIsSaidInTheWordsForObservers(t *testing.T) {
	at := time.Unix(5, 0)
	got := inspection(process.Inspection{
		At: at, Window: 2, More: 3, Unreadable: []string{"u"},
		Processes: []process.Detail{{
			Process: process.Process{PID: 1, PPID: 2, Name: "n", State: "S", WaitChannel: "w", StartedAt: at},
			Main:    true, Group: 3, Session: 4, Threads: 5, RSS: 6, CPU: 7, InWindow: 8, Command: "c", Call: "read", FD: 9, File: "f",
		}},
		Holders: []process.Holder{{
			Process: process.Process{PID: 10}, Command: "h", Stream: 2, FD: 11, Writes: true, Member: true, Session: 12,
		}},
	})
	want := observe.Inspection{
		At: at, Window: 2, More: 3, Unreadable: []string{"u"},
		Processes: []observe.ProcessDetail{{
			Process: observe.Process{PID: 1, PPID: 2, Name: "n", State: "S", WaitsIn: "w", StartedAt: at},
			Main:    true, Group: 3, Session: 4, Threads: 5, RSSBytes: 6, CPU: 7, InWindow: 8, Command: "c", Call: "read", FD: 9, File: "f",
		}},
		Pipes: []observe.PipeHolder{{
			Process: observe.Process{PID: 10}, Command: "h", Stream: "stderr", FD: 11, Writes: true, Member: true, Session: 12,
		}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestRunsForgetWhatIsRemoved(t *testing.T) {
	r := newRuns()
	r.add(observe.Exec{Seq: 7}, new(runner.Run))
	if len(r.of(nil)) != 1 || r.exec(nil).Seq != 7 {
		t.Errorf("not there: %+v", r)
	}
	r.remove(7)
	r.remove(7)
	if len(r.bySeq)+len(r.byTree) != 0 {
		t.Errorf("still there: %+v", r)
	}
}

// Nothing is kept of an exec that has ended and left nothing.
func TestRunsAreForgottenAfterTheirEnd(t *testing.T) {
	r := relaytest.New(t)
	d, err := New(Config{
		Relay:         Relay{Addr: r.Addr(), Token: func() (string, error) { return r.Token(), nil }},
		SandboxID:     "relaytest",
		Slots:         1,
		WorkspaceRoot: t.TempDir(),
		Drain:         time.Second,
		Env:           os.Environ(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- d.Run(context.Background()) }()
	s := r.Attach(t)
	s.Exec(t, 1, "exit 0")
	s.WantEnd(t, 1, 0)
	d.Drain()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	r.Stop()
	if left := d.runs.of(nil); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}
