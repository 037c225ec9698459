package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"execworker/daemon/observe"
)

// pipes is a listener of connections that never leave the process, so that a
// bubble of synctest can hold both ends, and time in it is made up.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// piped sends a request through all of s but its doors, and returns the answer. A
// pipe holds nothing: what is not read has not been written. Without a token it
// is an operator who asks.
func piped(t *testing.T, s *Server, method, target, token string) *http.Response {
	t.Helper()
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: s.Handler()}
	server.BaseContext = func(net.Listener) context.Context {
		return withAsker(context.Background(), asker{class: operator, why: "the test says so"})
	}
	if token != "" { // then it is the connection that is asked about
		server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, &connection{Conn: c, door: newDoor(p, "unix"), at: time.Now()})
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(p) }()
	here, there := net.Pipe()
	p.conns <- there
	t.Cleanup(func() { here.Close(); server.Close(); <-ended })
	r, err := http.NewRequest(method, "http://localhost/admin"+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if err := r.Write(here); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(here), r)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// linesOf reads an answer line by line.
func linesOf(t *testing.T, answer *http.Response) (next func() line) {
	lines := bufio.NewReader(answer.Body)
	return func() (l line) {
		t.Helper()
		text, err := lines.ReadString('\n')
		if err == nil {
			err = json.Unmarshal([]byte(text), &l)
		}
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		return l
	}
}

func (f *Feed) following() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.streams
}

func TestReaderThatDoesNotReadIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serverOf(busyWorker())
		next := linesOf(t, piped(t, s, "GET", "/events?types=snapshot,exec.finished", ""))
		next()
		s.feed.Event(t.Context(), ended(1)) // and nobody reads that
		time.Sleep(streamWrite - time.Second)
		if n := s.feed.following(); n != 1 {
			t.Fatalf("%d follow before its time is over", n)
		}
		time.Sleep(2 * time.Second)
		if n := s.feed.following(); n != 0 {
			t.Errorf("%d still follow", n)
		}
	})
}

// What comes by the clock comes when it is due, whatever types are wanted.
func TestStreamHasARhythm(t *testing.T) {
	for _, c := range []struct {
		query, want string
		every       time.Duration
	}{
		{"?types=stats", "stats", time.Second},
		{"?types=stats&interval=2s", "stats", 2 * time.Second},
		{"?types=exec.progress", "exec.progress", 500 * time.Millisecond},
		{"?types=exec.progress&interval=3s", "exec.progress", 3 * time.Second},
		{"?types=exec.finished", "keepalive", 15 * time.Second},
	} {
		t.Run(c.query, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := busyWorker()
				next := linesOf(t, piped(t, serverOf(w), "GET", "/events"+c.query, ""))
				began := time.Now()
				for i := range 3 {
					w.change(func(w *fakeWorker) { w.inflight[0].StdoutBytes++ })
					l := next()
					if took := time.Since(began); l.Type != c.want || took != time.Duration(i+1)*c.every {
						t.Errorf("line %d is %s after %s", i, l.Type, took)
					}
				}
			})
		})
	}
}

// Who wants some types only is told of what is lost all the same.
func TestLostPlaceIsToldToWhoWantsNoSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serverOf(busyWorker())
		next := linesOf(t, piped(t, s, "GET", "/events?types=exec.finished", ""))
		s.feed.Event(t.Context(), ended(0))
		synctest.Wait() // until it is being written
		for id := range uint64(feedKept + 1) {
			s.feed.Event(t.Context(), ended(id))
		}
		if l := next(); l.Type != "exec.finished" || l.Seq != 1 {
			t.Errorf("%s, seq %d", l.Type, l.Seq)
		}
		if l := next(); l.Type != "snapshot" || l.Seq != feedKept+2 {
			t.Errorf("%s, seq %d", l.Type, l.Seq)
		}
		s.feed.Event(t.Context(), ended(1))
		if l := next(); l.Type != "exec.finished" || l.Seq != feedKept+3 {
			t.Errorf("%s, seq %d", l.Type, l.Seq)
		}
	})
}

// endingWorker's execs end while they are being listed.
type endingWorker struct {
	*fakeWorker
	feed *Feed
}

func (w *endingWorker) Inflight() []observe.Inflight {
	list := w.fakeWorker.Inflight()
	w.change(func(w *fakeWorker) { w.inflight = nil })
	for _, x := range list {
		w.feed.Event(context.Background(), observe.Ended{Receipt: observe.Receipt{Exec: x.Exec}})
	}
	return list
}

func TestNoExecMovesAfterItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serverOf(busyWorker())
		s.worker = &endingWorker{fakeWorker: busyWorker(), feed: s.feed}
		next := linesOf(t, piped(t, s, "GET", "/events?since=0&types=exec.finished,exec.progress", ""))
		for i, want := range []string{"exec.finished", "exec.finished", "keepalive"} {
			if l := next(); l.Type != want {
				t.Errorf("line %d is %s: %s", i, l.Type, l.Data)
			}
		}
	})
}

// Without a snapshot a stream begins where it was asked for, and has what was
// asked for only.
func TestStreamOfSomeTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serverOf(busyWorker())
		s.feed.Event(t.Context(), ended(1))
		next := linesOf(t, piped(t, s, "GET", "/events?types=exec.finished,exec.killing", ""))
		s.feed.Event(t.Context(), observe.Dequeued{Exec: fakeExec(2)})
		s.feed.Event(t.Context(), observe.KillBegan{Exec: fakeExec(2)})
		s.feed.Event(t.Context(), ended(2))
		for i, want := range []string{"exec.killing", "exec.finished"} {
			if l := next(); l.Type != want || l.Seq != uint64(3+i) {
				t.Errorf("seq %d is %s, want %s", l.Seq, l.Type, want)
			}
		}
	})
}

func TestStreamEndsWithTheRightToReadIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := busyWorker()
		s := serverOf(w, func(o *Options) { o.Token = testToken })
		answer := piped(t, s, "GET", "/events?types=snapshot,stats", testToken)
		next := linesOf(t, answer)
		if l := next(); !strings.Contains(string(l.Data), `"command":`) {
			t.Fatalf("no operator's snapshot: %s", l.Data)
		}
		w.change(func(*fakeWorker) { s.options.Token = "another" }) // with the lock that stats take too
		l := next()
		for l.Type == "stats" {
			l = next()
		}
		if !strings.Contains(string(l.Data), "may see less") {
			t.Errorf("%s %s", l.Type, l.Data)
		}
		if rest, err := io.ReadAll(answer.Body); err != nil || len(rest) > 0 {
			t.Errorf("and then %q, %v", rest, err)
		}
	})
}

func TestWhoMaySeeLess(t *testing.T) {
	s := serverOf(busyWorker())
	for _, c := range []struct {
		was, now class
		want     bool
	}{
		{operator, operator, false}, {operator, unknown, true}, {operator, descendant, true},
		{unknown, unknown, false}, {unknown, operator, false}, {unknown, descendant, true},
	} {
		r, _ := http.NewRequestWithContext(withAsker(t.Context(), asker{class: c.now}), "GET", "/events", nil)
		if got := s.lesser(r, c.was); got != c.want {
			t.Errorf("%s, then %s: %t", c.was, c.now, got)
		}
	}
}

// A close ends all streams, those that nobody reads too, and says so to who reads.
func TestCloseEndsEveryStream(t *testing.T) {
	s := serverOf(busyWorker(), func(o *Options) { o.Processes = everybody(ours) })
	if err := s.Listen(nil, []string{"127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	var bodies []io.ReadCloser
	for range followersMost {
		answer, err := (&http.Client{Transport: transport}).Get("http://" + s.Addrs()[0] + "/admin/events")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		bodies = append(bodies, answer.Body)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := <-served; err != nil || s.feed.following() != 0 {
		t.Errorf("%v, %d follow", err, s.feed.following())
	}
	for i, body := range bodies[1:] { // nobody ever reads the first
		if text, err := io.ReadAll(body); err != nil || !strings.HasSuffix(string(text), fmt.Sprintf(`%s"}}`+"\n", "the server closes this stream")) {
			t.Errorf("stream %d: %v, …%q", i, err, text[max(0, len(text)-80):])
		}
	}
}
