package daemon_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"execworker/daemon/observe"
	"execworker/test/relaytest"

	"golang.org/x/sys/unix"
)

// seqOf is the Seq of what is in flight under a req_id.
func seqOf(t *testing.T, list []observe.Inflight, reqID uint64) (seq uint64, pid int) {
	t.Helper()
	for _, x := range list {
		if x.Exec.ID == observe.SandboxID(reqID) {
			return x.Exec.Seq, x.PID
		}
	}
	t.Fatalf("%d is not in flight: %+v", reqID, list)
	return 0, 0
}

func TestInspectShowsWhatIsInFlightAndNothingElse(t *testing.T) {
	d, r, _ := start(t, 2, nil)
	s := r.Attach(t)
	for id := range uint64(2) {
		s.Exec(t, id, "echo up; sleep 300; :", relaytest.Streaming(true))
		s.WaitOutput(t, id, "up")
	}
	s.Exec(t, 2, "echo queued")
	for d.Status().Queued == 0 {
		time.Sleep(time.Millisecond)
	}
	seqs := [3]uint64{}
	pids := [3]int{}
	for id := range seqs {
		seqs[id], pids[id] = seqOf(t, d.Inflight(), uint64(id))
	}
	all := d.Inspect(t.Context(), nil, false)
	if len(all) != 2 {
		t.Errorf("%d inspections, want 2: %+v", len(all), all)
	}
	for id := range 2 {
		i := all[seqs[id]]
		if len(i.Processes) == 0 || !i.Processes[0].Main || i.Processes[0].PID != pids[id] || i.Window == 0 || i.Pipes != nil {
			t.Errorf("%d: %+v", id, i)
		}
	}
	one := d.Inspect(t.Context(), []uint64{seqs[1], seqs[2], 999}, true)
	if len(one) != 1 || len(one[seqs[1]].Pipes) == 0 {
		t.Errorf("asked for one with processes: %+v", one)
	}
	if none := d.Inspect(t.Context(), []uint64{}, false); len(none) != 0 {
		t.Errorf("asked for none: %+v", none)
	}
}

// The command has ended and its req_id is answered; what it left is known by its Seq.
func TestInspectShowsWhoHoldsTheOutputOfWhatHasEnded(t *testing.T) {
	d, r, _ := start(t, 1, nil)
	s := r.Attach(t)
	s.Exec(t, 1, "setsid sleep 300 & exit 3")
	s.WantEnd(t, 1, 3)
	for len(d.Receipts()) == 0 { // filed right after the answer
		time.Sleep(time.Millisecond)
	}
	seq := d.Receipts()[0].Exec.Seq
	i := d.Inspect(t.Context(), []uint64{seq}, true)[seq]
	if len(i.Processes) != 1 || len(i.Pipes) != 2 {
		t.Fatalf("want one process and its two pipes: %+v", i)
	}
	for n, stream := range []string{"stdout", "stderr"} {
		h := i.Pipes[n]
		if h.Stream != stream || !h.Writes || !h.Member || h.Process.PID != i.Processes[0].PID || h.Command != "sleep 300" || h.Session == 0 {
			t.Errorf("%s: %+v", stream, h)
		}
	}
	if o := d.Origin(i.Processes[0].PID); o.Seq != seq {
		t.Errorf("origin of the survivor: %+v", o)
	}
}

func TestOriginNamesTheExec(t *testing.T) {
	d, r, _ := start(t, 1, nil)
	s := r.Attach(t)
	s.Exec(t, 7, "echo up; sleep 300; :", relaytest.Streaming(true))
	s.WaitOutput(t, 7, "up")
	seq, pid := seqOf(t, d.Inflight(), 7)
	o := d.Origin(pid)
	if !o.Found || !o.Descendant || o.Exec != observe.SandboxID(7) || o.Seq != seq || o.Process.PID != pid {
		t.Errorf("got %+v", o)
	}
	s.Abort(t, 7)
	s.WantEnd(t, 7, -1)
	for d.Origin(pid).Found { // it is reaped, and then forgotten
		time.Sleep(time.Millisecond)
	}
	if o := d.Origin(pid); o != (observe.Origin{}) {
		t.Errorf("of a process that is gone: %+v", o)
	}
}

func TestHoldersNameTheExec(t *testing.T) {
	d, r, _ := start(t, 1, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	s := r.Attach(t)
	s.Exec(t, 1, "exec 3<>/dev/tcp/127.0.0.1/"+port+"; echo up; sleep 300; :", relaytest.Streaming(true))
	s.WaitOutput(t, 1, "up")
	seq, pid := seqOf(t, d.Inflight(), 1)
	var socket unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/fd/3", pid), &socket); err != nil {
		t.Fatal(err)
	}
	holders, hidden := d.Holders(socket.Ino)
	if len(holders) == 0 || hidden {
		t.Fatalf("holders %+v, hidden %v", holders, hidden)
	}
	for _, h := range holders {
		if !h.Descendant || h.Exec != observe.SandboxID(1) || h.Seq != seq {
			t.Errorf("got %+v", h)
		}
	}
}

func TestInspectEndsWithItsContext(t *testing.T) {
	d, r, _ := start(t, 1, nil)
	s := r.Attach(t)
	s.Exec(t, 1, "echo up; sleep 300; :", relaytest.Streaming(true))
	s.WaitOutput(t, 1, "up")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := d.Inspect(ctx, nil, true); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}
