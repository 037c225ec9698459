package daemon_test

import (
	"context"
	"errors"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"execworker/daemon"
	"execworker/daemon/observe"
	"execworker/test/relaytest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// startNoting is startAt, and passes on how the first attempt ended.
func startNoting(t *testing.T, r *relaytest.Relay, change func(*daemon.Config)) (*daemon.Daemon, <-chan observe.SessionEnded) {
	t.Helper()
	ended := make(chan observe.SessionEnded, 1)
	d, _ := startAt(t, r, func(e observe.Event) {
		if e, ok := e.(observe.SessionEnded); ok && e.Session.Number == 1 {
			ended <- e
		}
	}, change)
	return d, ended
}

// wantEnd checks what was reported of the first attempt, and that the history
// has the same.
func wantEnd(t *testing.T, d *daemon.Daemon, e observe.SessionEnded, reason, code, detail string) {
	t.Helper()
	s := e.Session
	if s.EndReason != reason || s.Code != code || !strings.Contains(s.Detail, detail) || detail == "" && s.Detail != "" {
		t.Errorf("ended with %q, code %q, %q; want %q, %q, %q", s.EndReason, s.Code, s.Detail, reason, code, detail)
	}
	if s.Attempt != 1 || s.Backoff != 0 || s.DialedAt.IsZero() || s.EndedAt.Before(s.DialedAt) {
		t.Errorf("record: %+v", s)
	}
	for _, kept := range d.Sessions() {
		if kept.Number == s.Number {
			if !reflect.DeepEqual(kept, s) {
				t.Errorf("kept is     %+v\nreported is %+v", kept, s)
			}
			return
		}
	}
	t.Error("it is not in the history")
}

// silent listens and says nothing, not even that it is a relay.
func silent(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestAttemptsThatFailAreKept(t *testing.T) {
	_, port, _ := net.SplitHostPort(silent(t))
	closed, mute := "127.0.0.2:"+port, silent(t) // all of 127/8 is ours, and only 127.0.0.1 listens
	certs := relaytest.NewCerts(t)
	tests := []struct {
		name         string
		options      []relaytest.Option
		change       func(*daemon.Config)
		code, detail string
	}{
		{name: "refused dial", change: func(c *daemon.Config) { c.Relay.Addr = closed },
			code: "Unavailable", detail: "connection refused"},
		{name: "no such name", change: func(c *daemon.Config) { c.Relay.Addr = "relay.invalid:1" },
			code: "Unavailable", detail: "relay.invalid"},
		{name: "unknown authority", options: []relaytest.Option{relaytest.WithTLS(certs.Server(false))},
			change: func(c *daemon.Config) { c.Relay.TLS = true },
			code:   "Unavailable", detail: "certificate signed by unknown authority"},
		{name: "TLS with a relay that has none", change: func(c *daemon.Config) { c.Relay.TLS = true },
			code: "Unavailable", detail: "tls: "},
		{name: "CA unreadable", change: func(c *daemon.Config) { c.Relay.TLS, c.Relay.CAFile = true, "/nowhere" },
			detail: "read CA: open /nowhere: no such file"},
		{name: "token unreadable",
			change: func(c *daemon.Config) {
				c.Relay.Token = func() (string, error) { return "", errors.New("token: no such file") }
			},
			detail: "token: no such file"},
		{name: "no answer in time", change: func(c *daemon.Config) { c.Relay.Addr = mute },
			detail: "relay did not answer in time"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := relaytest.New(t, test.options...)
			var tls bool
			d, ended := startNoting(t, r, func(c *daemon.Config) { test.change(c); tls = c.Relay.TLS })
			e := <-ended
			wantEnd(t, d, e, "attach failed", test.code, test.detail)
			if s := e.Session; !s.ConnectedAt.IsZero() || !s.HelloAt.IsZero() || s.Healthy || s.ExecsLost != 0 || s.TLS != tls {
				t.Errorf("record: %+v", s)
			}
		})
	}
}

func TestSessionsThatEndAreKept(t *testing.T) {
	tests := []struct {
		name                 string
		end                  func(*relaytest.Relay, *relaytest.Session)
		reason, code, detail string
	}{
		{"the relay ends the stream", func(_ *relaytest.Relay, s *relaytest.Session) { s.EndCleanly() }, "relay ended the stream", "", ""},
		{"the relay ends it with a status",
			func(_ *relaytest.Relay, s *relaytest.Session) {
				s.Drop(status.Error(codes.PermissionDenied, "go\x1b away"))
			},
			"stream broke", "PermissionDenied", "go\x1b away"},
		{"the relay vanishes", func(r *relaytest.Relay, _ *relaytest.Session) { r.CutTCP() }, "stream broke", "Unavailable", "receive: "},
		{"the relay restarts", func(r *relaytest.Relay, _ *relaytest.Session) { r.Stop(); r.Start(t) }, "stream broke", "Unavailable", "receive: "},
		{"a message is too large", func(_ *relaytest.Relay, s *relaytest.Session) { s.SendOversize(9, 65<<20) },
			"message too large", "ResourceExhausted", "larger than max"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := relaytest.New(t)
			d, ended := startNoting(t, r, func(*daemon.Config) {})
			s := r.Attach(t)
			s.Exec(t, 1, "exit 1")
			s.WantEnd(t, 1, 1)
			s.Exec(t, 2, "echo up; sleep 300", relaytest.Streaming(true))
			s.WaitOutput(t, 2, "up")
			s.Exec(t, 3, "echo queued")
			waitQueued(t, d, 1)
			test.end(r, s)
			e := <-ended
			wantEnd(t, d, e, test.reason, test.code, test.detail)
			if s := e.Session; s.ExecsLost != 2 || s.HelloAt.Before(s.ConnectedAt) || s.ConnectedAt.IsZero() || s.FramesIn < 3 || s.TLS {
				t.Errorf("record: %+v", s)
			}
			if e.Next <= 0 {
				t.Error("no next attempt is told of")
			}
		})
	}
}

func TestARefusedSessionIsKept(t *testing.T) {
	r := relaytest.New(t)
	r.RefuseHello(1)
	d, ended := startNoting(t, r, func(*daemon.Config) {})
	e := <-ended
	wantEnd(t, d, e, "refused or duplicate sandbox_id", "", "")
	r.Attach(t)
	for !d.Status().Attached {
		time.Sleep(time.Millisecond) // the relay knows first
	}
	if second := d.Sessions()[0]; second.Number != 2 || second.Attempt != 2 || second.Backoff != e.Next || second.Backoff <= 0 {
		t.Errorf("next attempt: %+v", second)
	}
}

func TestNoNextAttemptIsToldOfOnceTheWorkerStops(t *testing.T) {
	r := relaytest.New(t)
	r.Stop()
	drained := make(chan struct{})
	d, _ := startAt(t, r, func(e observe.Event) {
		if _, ok := e.(observe.DrainEnded); ok {
			close(drained)
		}
	}, func(*daemon.Config) {})
	for d.Status().NextAttempt.IsZero() {
		time.Sleep(time.Millisecond) // until it waits for its next attempt
	}
	d.Drain()
	<-drained
	for deadline := time.Now().Add(30 * time.Second); !d.Status().NextAttempt.IsZero(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("there is still one")
		}
	}
}

// What is stopped says so, wherever the attempt stood.
func TestAttemptsThatAreStoppedAreKept(t *testing.T) {
	mute := silent(t)
	tests := []struct {
		name   string
		attach bool
		stop   func(*daemon.Daemon, context.CancelCauseFunc)
	}{
		{"drain while attached", true, func(d *daemon.Daemon, _ context.CancelCauseFunc) { d.Drain() }},
		{"drain while dialing", false, func(d *daemon.Daemon, _ context.CancelCauseFunc) { d.Drain() }},
		{"at once while attached", true, func(_ *daemon.Daemon, stop context.CancelCauseFunc) { stop(errors.New("second signal")) }},
		{"at once while dialing", false, func(_ *daemon.Daemon, stop context.CancelCauseFunc) { stop(errors.New("second signal")) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := relaytest.New(t)
			dialing := make(chan struct{}, 1)
			ended := make(chan observe.SessionEnded, 1)
			d, stop := startStoppable(t, r, &recorder{events: map[string][]string{}, hold: func(e observe.Event) {
				switch e := e.(type) {
				case observe.Dialing:
					dialing <- struct{}{}
				case observe.SessionEnded:
					ended <- e
				}
			}}, func(c *daemon.Config) {
				if !test.attach {
					c.Relay.Addr = mute
				}
			})
			<-dialing
			if test.attach {
				r.Attach(t).Fence(t)
			}
			if now := d.Sessions(); len(now) != 1 || !now[0].EndedAt.IsZero() || now[0].EndReason != "" || now[0].HelloAt.IsZero() == test.attach {
				t.Errorf("the attempt under way is not there as it is: %+v", now)
			}
			test.stop(d, stop)
			e := <-ended
			if e.Session.EndReason != "shutdown" || e.Next != 0 {
				t.Errorf("ended with %q, %q, next in %v", e.Session.EndReason, e.Session.Detail, e.Next)
			}
			if status := d.Status(); !status.NextAttempt.IsZero() {
				t.Errorf("there will be another attempt at %v", status.NextAttempt)
			}
		})
	}
}
