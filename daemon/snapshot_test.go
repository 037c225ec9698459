package daemon_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"execworker/daemon"
	"execworker/daemon/observe"
	"execworker/daemon/process"
	"execworker/test/relaytest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// wireBytes counts the messages that a relay gets and sends.
type wireBytes struct{ in, out atomic.Int64 }

func (w *wireBytes) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s := s.(type) {
	case *stats.InPayload:
		w.in.Add(int64(s.Length))
	case *stats.OutPayload:
		w.out.Add(int64(s.Length))
	}
}

func (w *wireBytes) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (w *wireBytes) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (w *wireBytes) HandleConn(context.Context, stats.ConnStats)                       {}

func TestSessionCountsTheBytesOfItsFrames(t *testing.T) {
	wire := new(wireBytes)
	r := relaytest.New(t, relaytest.WithServerOptions(grpc.StatsHandler(wire)))
	ended := make(chan observe.Session, 1)
	d, _ := startAt(t, r, func(e observe.Event) {
		if e, ok := e.(observe.SessionEnded); ok {
			select {
			case ended <- e.Session:
			default: // those after it say nothing here
			}
		}
	}, func(*daemon.Config) {})
	s := r.Attach(t)
	s.Exec(t, 1, "head -c 100000 /dev/zero; echo err >&2", relaytest.Stdin(make([]byte, 5000)))
	s.WantEnd(t, 1, 0)
	s.SendRaw(t, []byte{0xff, 0xff, 0xff}) // no frame, but bytes
	s.Fence(t)
	live := d.Sessions()[0]
	s.Drop(nil)
	over := <-ended
	for _, record := range []observe.Session{live, over} {
		if record.BytesIn != wire.out.Load() || record.BytesOut != wire.in.Load() {
			t.Errorf("%d bytes in and %d out; the relay sent %d and got %d",
				record.BytesIn, record.BytesOut, wire.out.Load(), wire.in.Load())
		}
	}
	if over.BytesOut < 100_000 || over.BytesIn < 5_000 {
		t.Errorf("%d bytes in and %d out are too few", over.BytesIn, over.BytesOut)
	}
}

func TestLastRecvAtIsOfTheLastFrame(t *testing.T) {
	d, r, _ := start(t, 1, nil)
	s := r.Attach(t)
	s.Fence(t)
	for _, send := range []func(){
		func() { s.Abort(t, 77) },
		func() { s.SendRaw(t, nil) },
	} {
		before := d.Sessions()[0]
		send()
		now := before
		for now.FramesIn == before.FramesIn {
			time.Sleep(time.Millisecond) // neither is answered
			now = d.Sessions()[0]
		}
		if !now.LastRecvAt.After(before.LastRecvAt) {
			t.Errorf("frame %d came at %v, that before it at %v", now.FramesIn, now.LastRecvAt, before.LastRecvAt)
		}
	}
}

func inflightOf(t *testing.T, d *daemon.Daemon, reqID uint64) observe.Inflight {
	t.Helper()
	for _, x := range d.Inflight() {
		if x.Exec.ID == observe.SandboxID(reqID) {
			return x
		}
	}
	t.Fatalf("req_id %d is not in flight", reqID)
	return observe.Inflight{}
}

// The times of an exec come one after the other, and none before its time.
func TestInflightTellsWhatHasHappened(t *testing.T) {
	killing, release := make(chan struct{}), make(chan struct{})
	d, r, _ := start(t, 1, func(e observe.Event) {
		if _, ok := e.(observe.KillBegan); ok {
			close(killing)
			<-release
		}
	})
	s := r.Attach(t)
	// Main ends at once, and the run is not over while the other one talks.
	s.Exec(t, 1, "(while echo more; do sleep 0.01; done) & exit 0", relaytest.Streaming(true))
	s.Exec(t, 2, "true")
	waitQueued(t, d, 1)
	if x := inflightOf(t, d, 2); x.State != observe.StateQueued || !x.DequeuedAt.IsZero() || !x.StartedAt.IsZero() {
		t.Errorf("queued: %+v", x)
	}
	x := inflightOf(t, d, 1)
	for x.State != observe.StateDraining {
		time.Sleep(time.Millisecond) // it is not reported
		x = inflightOf(t, d, 1)
	}
	if x.MainEndedAt.IsZero() || !x.KillBeganAt.IsZero() {
		t.Errorf("draining: %+v", x)
	}
	s.Abort(t, 1)
	<-killing
	x = inflightOf(t, d, 1)
	close(release)
	times := []time.Time{x.Exec.ReceivedAt, x.DequeuedAt, x.StartedAt, x.MainEndedAt, x.KillBeganAt}
	for i := range times[1:] {
		if times[i+1].Before(times[i]) {
			t.Errorf("time %d of %v comes too early", i+1, times)
		}
	}
	s.WantEnd(t, 2, 0)
}

func TestStatusTellsTheLevelOfContainment(t *testing.T) {
	d, _, _ := start(t, 1, nil)
	if level := d.Status().Containment; level != process.LevelBase && level != process.LevelReduced {
		t.Errorf("the level is %q", level)
	}
}
