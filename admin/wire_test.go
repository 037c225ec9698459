package admin

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// What net/http's client would not send, as bytes on the wire.

// say sends text over a new connection to loopback, which it returns.
func (s served) say(text string) net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.Addrs()[0])
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// wantAnswer reads one answer from c, which must come within most.
func wantAnswer(t *testing.T, c net.Conn, most time.Duration) *http.Response {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(most))
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	return answer
}

// wantEnd waits until the other end has closed c.
func wantEnd(t *testing.T, c net.Conn, most time.Duration) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(most))
	if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the connection is not closed: %v", err)
	}
}

// net/http would answer this one by itself, and let every host have it.
func TestOptionsOfEverythingAreGuarded(t *testing.T) {
	s := serve(t, everybody(ours))
	for host, want := range map[string]int{"evil.example": 403, "localhost": 404} {
		c := s.say("OPTIONS * HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n")
		if answer := wantAnswer(t, c, 10*time.Second); answer.StatusCode != want {
			t.Errorf("%s: %d, want %d", host, answer.StatusCode, want)
		}
	}
}

// An upgrade to HTTP/2 is neither offered nor taken.
func TestHTTP2IsNotSpoken(t *testing.T) {
	s := serve(t, everybody(ours))
	c := s.say("GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n")
	if answer := wantAnswer(t, c, 10*time.Second); answer.StatusCode != 200 || answer.ProtoMajor != 1 {
		t.Errorf("an upgrade: %s %s", answer.Proto, answer.Status)
	}
	c = s.say("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	if answer := wantAnswer(t, c, 10*time.Second); answer.StatusCode < 400 {
		t.Errorf("prior knowledge: %s", answer.Status)
	}
}

// A body that never comes costs its sender the connection, whether somebody
// would have read it or not.
func TestBodyThatNeverComesIsCut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		request string
		want    int
	}{
		"refused": {"POST /admin/drain HTTP/1.1\r\nHost: evil.example\r\n", 403},
		"routed":  {"POST /admin/drain HTTP/1.1\r\nHost: localhost\r\n", 400},
		"a probe": {"GET /livez HTTP/1.1\r\nHost: localhost\r\n", 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, everybody(ours))
			conn := s.say(c.request + "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
			if answer := wantAnswer(t, conn, bodyTime+10*time.Second); answer.StatusCode != c.want {
				t.Errorf("%d, want %d", answer.StatusCode, c.want)
			}
			wantEnd(t, conn, bodyTime+10*time.Second)
		})
	}
}

// The answer to too large a body arrives, though its sender has not stopped.
func TestLargeBodyIsRefused(t *testing.T) {
	s := serve(t, everybody(ours))
	for _, network := range []string{"tcp", "unix"} {
		for size, want := range map[int]int{bodyMost: 400, bodyMost + 1: 413, 200 << 10: 413} {
			body := strings.Repeat(" ", size)
			code, text, _ := s.ask(network, "POST", "/admin/drain", body, "Content-Type", "application/json")
			if code != want {
				t.Errorf("%s, %d bytes: %d %s", network, size, code, text)
			}
		}
	}
}

// Who is refused hears of it at once, though the rest of its body is to come.
func TestRefusedBodyEndsTheConnection(t *testing.T) {
	s := serve(t, everybody(ours))
	body := strings.NewReader(strings.Repeat(" ", bodyMost+1))
	for name, c := range map[string]struct {
		host, path string
		want       int
	}{"too large": {"localhost", "/admin/drain", 413}, "by the guard": {"evil.example", "/admin/drain", 403}} {
		body.Reset(strings.Repeat(" ", bodyMost+1))
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", c.path, body)
		r.Host = c.host
		r.Header.Set("Content-Type", "application/json")
		ctx := withAsker(r.Context(), asker{class: operator})
		if c.want == 403 {
			ctx = context.WithValue(ctx, connKey{}, &connection{door: s.doorOf("tcp")})
		}
		s.Handler().ServeHTTP(w, r.WithContext(ctx))
		if w.Code != c.want || w.Header().Get("Connection") != "close" {
			t.Errorf("%s: %d, Connection: %q", name, w.Code, w.Header().Get("Connection"))
		}
	}
}

// readDeadlines remembers the deadline that was set last.
type readDeadlines struct {
	*httptest.ResponseRecorder
	last time.Time
	sets int
}

func (d *readDeadlines) SetReadDeadline(t time.Time) error {
	d.last = t
	d.sets++
	return nil
}

// The deadline of a body would end what comes after it: a wait, or a stream.
func TestDeadlineOfABodyEndsWithIt(t *testing.T) {
	s := serverOf(busyWorker())
	w := &readDeadlines{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequest("POST", "/admin/drain", strings.NewReader("{}"))
	s.Handler().ServeHTTP(w, r.WithContext(withAsker(r.Context(), asker{class: operator})))
	if w.Code != 202 || w.sets != 2 || !w.last.IsZero() {
		t.Errorf("%d; after %d settings the deadline is %v", w.Code, w.sets, w.last)
	}
}

// Half of an answer must not look whole.
func TestPanicInAnAnswerCutsItOff(t *testing.T) {
	s := serverOf(busyWorker())
	server := httptest.NewServer(s.recovered(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "half")
		http.NewResponseController(w).Flush()
		panic("a mistake")
	})))
	defer server.Close()
	answer, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err == nil {
		t.Errorf("the answer is whole: %q", text)
	}
}

// A path goes into a header, and a header to a terminal.
func TestHeadersHoldNoEscapes(t *testing.T) {
	s := serve(t, everybody(ours))
	_, _, header := s.ask("tcp", "GET", "/admin/inflight/%1b%5b2J", "")
	if got := header.Get("Content-Location"); got != "/admin/v1/inflight/%1b%5b2J" {
		t.Errorf("Content-Location: %q", got)
	}
}
