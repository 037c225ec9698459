package relaytest

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestAnswersFollowTheLatestExec(t *testing.T) {
	r := New(t)
	startFake(t, r, nil)
	s := r.Attach(t)
	if s.Hello.GetSandboxId() != "relaytest" {
		t.Errorf("Hello %v", s.Hello)
	}
	s.Exec(t, 4, "cat; exit 3", Stdin([]byte("one")))
	s.WantEnd(t, 4, 3)
	s.WantOutput(t, 4, "one", "")
	s.Exec(t, 4, "echo two")
	s.WantOutput(t, 4, "two\n", "")
	s.WantEnd(t, 4, 0)
	s.Exec(t, 5, "frames: a err heartbeat b error")
	s.WantError(t, 5, "timeout:1")
	if got := s.WantOutput(t, 5, "ab", "err"); got.Chunks != 3 || got.MaxChunk != 3 || got.Size != 5 {
		t.Errorf("got %+v", got)
	}
	s.WaitHeartbeats(t, 1)
	if rs := s.Answers(t, 4, 2); string(rs[0].Stdout) != "one" || string(rs[1].Stdout) != "two\n" {
		t.Errorf("answers %+v", rs)
	}
	s.WantNothingMore(t, 4, 5)
}

func TestFaultsOfAWorkerAreFound(t *testing.T) {
	for _, c := range []struct{ frames, want string }{
		{"a end", ""},
		{"end end", "req_id 4: an End after the terminal frame"},
		{"end error", "req_id 4: an ExecError after the terminal frame"},
		{"end a", "req_id 4: a chunk after the terminal frame"},
		{"stray end", "req_id 1004: an End for an exec that this stream did not ask for"},
		{"big end", "req_id 4: a chunk of 32769 bytes"},
		{"hello end", "a frame that has no place in a session: *sandboxv1.WorkerFrame_Hello"},
	} {
		t.Run(c.frames, func(t *testing.T) {
			r := New(t)
			startFake(t, r, nil)
			s := r.Attach(t)
			s.Exec(t, 4, "frames: "+c.frames)
			s.Fence(t)
			s.Result(t, 4)
			if got := r.takeFaults(); !strings.Contains(got, c.want) || c.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	t.Run("over 4 MiB", func(t *testing.T) {
		r := New(t)
		startFake(t, r, nil)
		s := r.Attach(t)
		s.Exec(t, 4, "frames: huge")
		if err := s.WaitOver(t); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("the stream ended with %v", err)
		}
		if got := r.takeFaults(); !strings.Contains(got, "cannot be taken") {
			t.Errorf("got %q", got)
		}
	})
}

func TestRawMessagesGoOutAsTheyAre(t *testing.T) {
	r := New(t)
	startFake(t, r, nil)
	s := r.Attach(t)
	s.SendRaw(t, nil)
	s.SendRaw(t, []byte{0xc2, 0x3e, 0x00}) // field 1000, empty
	// An Exec of req_id 7 and command "true", then an unknown field 1000.
	s.SendRaw(t, []byte{1<<3 | 2, 11, 1 << 3, 7, 2<<3 | 2, 4, 't', 'r', 'u', 'e', 0xc2, 0x3e, 0x00})
	s.WantEnd(t, 7, 0)
	s.SendRaw(t, []byte{1<<3 | 2, 4, 2<<3 | 2, 2, 0xff, 0xfe}) // not UTF-8: this fake dies of it
	if err := s.WaitOver(t); status.Code(err) != codes.Canceled {
		t.Errorf("the stream ended with %v", err)
	}
	s = r.Attach(t)
	s.SendOversize(8, 4<<20)
	s.WaitOver(t)
	r.Attach(t)
}

func TestEndsOfAStream(t *testing.T) {
	r := New(t)
	w := startFake(t, r, nil)
	r.Attach(t).EndCleanly()
	r.Attach(t).Drop(status.Error(codes.Unavailable, "later"))
	w.WaitLog(t, "later")
	s := r.Attach(t)
	r.CutTCP()
	if err := s.WaitOver(t); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a cut stream ended with %v", err)
	}
	r.Attach(t)
	r.Stop()
	if c, err := net.Dial("tcp", r.Addr()); err == nil {
		c.Close()
		t.Error("a stopped relay took a connection")
	}
	r.RefuseHello(2)
	r.Start(t)
	s = r.Attach(t)
	var refused int
	for _, a := range r.Attaches() {
		if a.Refused != "" {
			refused++
		}
	}
	if refused != 2 || len(r.WaitAttaches(t, 7)) != 7 {
		t.Errorf("attaches: %+v", r.Attaches())
	}
	r.GoAway()
	s.Exec(t, 4, "echo still here")
	s.WantOutput(t, 4, "still here\n", "")
	s.EndCleanly()
	s = r.Attach(t)
	s.Fence(t)
	w.Signal(t, 15)
	s.WantCloseSend(t)
	if code := w.Wait(t); code != 0 {
		t.Errorf("worker ended with %d", code)
	}
}

func TestBadTokenIsRefusedCleanly(t *testing.T) {
	r := New(t, WithToken("right"))
	startFake(t, r, Env{"SANDBOX_TOKEN": "wrong"})
	for _, a := range r.WaitAttaches(t, 2) {
		if a.Refused != "bad token" {
			t.Errorf("attach %+v", a)
		}
	}
}

func TestStallsHoldFramesBack(t *testing.T) {
	r := New(t)
	startFake(t, r, nil)
	s := r.Attach(t)
	type stall struct {
		name         string
		stop, resume func()
	}
	for i, c := range []stall{
		{"frames", s.Stall, s.Resume},
		{"bytes", r.StallTCP, r.ResumeTCP},
		{"packets", func() { r.BlackholeTCP(t) }, func() { r.RestoreTCP(t) }},
	} {
		id := uint64(i + 1)
		s.Exec(t, id, "sleep 0.1; echo x")
		c.stop()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		<-ctx.Done() // long enough for the answer to come, were it let through
		cancel()
		if fs := s.Frames(id); len(fs) != 0 {
			t.Errorf("%s: %d frames came through", c.name, len(fs))
		}
		c.resume()
		s.WantOutput(t, id, "x\n", "")
	}
}

// TestBlackholeIsAHalfOpenConnection: the kernel on the relay's side must not
// acknowledge, or a worker's keepalive would find the link alive.
func TestBlackholeIsAHalfOpenConnection(t *testing.T) {
	r := New(t)
	c, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 300)
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil { // the server's SETTINGS: it has the connection
		t.Fatal(err)
	}
	r.BlackholeTCP(t)
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(hang))
	if _, err := io.Copy(io.Discard, c); !errors.Is(err, unix.ETIMEDOUT) {
		t.Errorf("the connection ended with %v, want ETIMEDOUT", err)
	}
	if c, err := net.DialTimeout("tcp", r.Addr(), 200*time.Millisecond); err == nil {
		c.Close()
		t.Error("the black hole took a connection")
	}
	r.RestoreTCP(t)
	startFake(t, r, nil)
	r.Attach(t).Fence(t)
}

func TestMutualTLS(t *testing.T) {
	c := NewCerts(t)
	r := New(t, WithTLS(c.Server(true)))
	startFake(t, r, Env{"RELAY_CA_FILE": c.CAFile, "RELAY_CERT_FILE": c.CertFile, "RELAY_KEY_FILE": c.KeyFile})
	r.Attach(t).Fence(t)
}
