package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"execworker/daemon/observe"
	"execworker/daemon/runner"
	sandboxv1 "execworker/proto/sandbox/v1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestBackoffDoublesToThirtySecondsWithFullJitter(t *testing.T) {
	if backoff(0) != 0 {
		t.Error("waits without a failure")
	}
	windows := map[int]time.Duration{1: 500 * time.Millisecond, 2: time.Second, 6: 16 * time.Second, 7: 30 * time.Second, 1 << 40: 30 * time.Second}
	for failures, window := range windows {
		var least, most time.Duration = window, 0
		for range 2000 {
			d := backoff(failures)
			least, most = min(least, d), max(most, d)
		}
		if least <= 0 || least > window/20 || most > window || most < window*19/20 {
			t.Errorf("after %d failures from %v to %v, want all of (0, %v]", failures, least, most, window)
		}
	}
}

func TestWhatResetsTheBackoff(t *testing.T) {
	hello := time.Unix(1000, 0)
	tests := []struct {
		name  string
		lived time.Duration
		asked bool
		code  string
		want  bool
	}{
		{"refused at once", time.Millisecond, false, "", false},
		{"idle for a while", 29 * time.Second, false, "", false},
		{"lived 30 s", 30 * time.Second, false, "", true},
		{"worked", time.Second, true, "", true},
		{"worked and ended at once", 900 * time.Millisecond, true, "", false},
		{"ended by a message too large", 10 * time.Second, true, codes.ResourceExhausted.String(), false},
	}
	for _, test := range tests {
		r := observe.Session{HelloAt: hello, EndedAt: hello.Add(test.lived), Code: test.code}
		if got := healthy(r, test.asked); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	if healthy(observe.Session{EndedAt: hello.Add(time.Hour)}, true) {
		t.Error("healthy without a Hello")
	}
}

func TestEndReasons(t *testing.T) {
	hello := observe.Session{HelloAt: time.Unix(1, 0)}
	served := observe.Session{HelloAt: time.Unix(1, 0), FramesIn: 1}
	tests := []struct {
		record observe.Session
		err    error
		want   string
	}{
		{observe.Session{}, errDialTimeout, "attach failed"},
		{hello, io.EOF, "refused or duplicate sandbox_id"},
		{observe.Session{HelloAt: time.Unix(1, 0), Healthy: true}, io.EOF, "relay ended the stream"},
		{served, io.EOF, "relay ended the stream"},
		{served, errFinished, "shutdown"},
		{served, errWedged, "egress wedged"},
		{served, fmt.Errorf("receive: %w", status.Error(codes.ResourceExhausted, "")), "message too large"},
		{served, fmt.Errorf("receive: %w", status.Error(codes.Unavailable, "")), "stream broke"},
	}
	for _, test := range tests {
		if got := endReason(test.record, test.err); got != test.want {
			t.Errorf("%v: %q, want %q", test.err, got, test.want)
		}
	}
}

// proxyOnce accepts one connection, answers its CONNECT and echoes after it.
func proxyOnce(t *testing.T, answer string) (addr string, request <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	requests := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		r := bufio.NewReader(conn)
		var head strings.Builder
		for {
			line, err := r.ReadString('\n')
			if err != nil || line == "\r\n" {
				break
			}
			head.WriteString(line)
		}
		requests <- head.String()
		io.WriteString(conn, answer)
		io.Copy(conn, r)
	}()
	return l.Addr().String(), requests
}

func through(proxy string) Relay {
	return Relay{Proxy: func(*url.URL) (*url.URL, error) { return url.Parse("http://" + proxy) }}
}

func TestDialGoesThroughTheProxy(t *testing.T) {
	addr, request := proxyOnce(t, "HTTP/1.1 200 fine\r\nX-A: b\r\n\r\nearly")
	conn, err := through("user:secret@"+addr).dialTCP(t.Context(), "relay.example:8443")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got := <-request
	for _, want := range []string{"CONNECT relay.example:8443 HTTP/1.1\r\n", "Host: relay.example:8443\r\n", "Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("asked %q, without %q", got, want)
		}
	}
	early := make([]byte, 5)
	if _, err := io.ReadFull(conn, early); err != nil || string(early) != "early" {
		t.Errorf("first bytes are %q, %v", early, err)
	}
}

func TestAProxyThatRefusesIsNamed(t *testing.T) {
	addr, _ := proxyOnce(t, "HTTP/1.1 403 no\r\n\r\n")
	_, err := through(addr).dialTCP(t.Context(), "relay.example:8443")
	if err == nil || !strings.Contains(err.Error(), `proxy: CONNECT relay.example:8443: answered "HTTP/1.1 403 no"`) {
		t.Errorf("got %v", err)
	}
}

func TestASilentProxyEndsWithTheContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if conn, err := l.Accept(); err == nil {
			bufio.NewReader(conn).ReadString('\n')
			cancel()
		}
	}()
	if _, err := through(l.Addr().String()).dialTCP(ctx, "relay.example:8443"); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}

// slowStream takes one frame a millisecond and counts heartbeats.
type slowStream struct {
	grpc.ClientStream
	beats []time.Time
}

func (s *slowStream) SendMsg(m any) error {
	time.Sleep(time.Millisecond)
	if f, ok := m.(*outbound).frame.(*sandboxv1.WorkerFrame); ok && f.GetHeartbeat() != nil {
		s.beats = append(s.beats, time.Now())
	}
	return nil
}

func (s *slowStream) CloseSend() error { return nil }

func TestHeartbeatsKeepTheirIntervalUnderAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &session{sender: newSender()}
		s.ctx, s.end = context.WithCancelCause(t.Context())
		flood := s.sender.lane(1)
		go func() {
			slab := runner.NewSlab()
			for s.ctx.Err() == nil {
				*slab = append(*slab, make([]byte, runner.SlabSize)...)
				slab = flood.put(runner.Stdout, slab, never)
			}
		}()
		stream := new(slowStream)
		sent := make(chan error)
		go func() { sent <- s.send(stream) }()
		time.Sleep(61 * time.Second)
		s.sender.kill()
		s.end(errFinished)
		if err := <-sent; err != nil {
			t.Error(err)
		}
		if len(stream.beats) != 4 {
			t.Errorf("%d heartbeats in a minute", len(stream.beats))
		}
	})
}
