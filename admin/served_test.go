package admin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"execworker/daemon/observe"
)

// fakeProcesses says of every process what it was told to.
type fakeProcesses struct {
	mu      sync.Mutex
	origin  func(pid int) observe.Origin
	holders func(inode uint64) ([]observe.Origin, bool)
	inodes  []uint64 // that were asked for
}

func (p *fakeProcesses) Origin(pid int) observe.Origin { return p.origin(pid) }

func (p *fakeProcesses) Holders(inode uint64) ([]observe.Origin, bool) {
	p.mu.Lock()
	p.inodes = append(p.inodes, inode)
	p.mu.Unlock()
	return p.holders(inode)
}

// Processes of three kinds.
var (
	ours   = observe.Origin{Found: true, UID: os.Geteuid(), Process: observe.Process{PID: 4, Name: "curl"}}
	theirs = observe.Origin{Found: true, UID: 4711, Process: observe.Process{PID: 5, Name: "curl"}}
	inside = observe.Origin{
		Found: true, UID: os.Geteuid(), Descendant: true, Exec: observe.SandboxID(7), Seq: 107,
		Process: observe.Process{PID: 6, Name: "bash"},
	}
)

// everybody is such a process, on both kinds of connection.
func everybody(o observe.Origin) *fakeProcesses {
	return &fakeProcesses{
		origin:  func(int) observe.Origin { return o },
		holders: func(uint64) ([]observe.Origin, bool) { return []observe.Origin{o}, false },
	}
}

const testToken = "correct horse battery staple"

// served is a server that listens on a socket and on loopback, for one test.
type served struct {
	*Server
	t      *testing.T
	denied chan observe.AdminDenied
}

func serve(t *testing.T, processes Processes, changes ...func(*Options)) served {
	t.Helper()
	dir, err := os.MkdirTemp("", "ew-") // short: a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	denied := make(chan observe.AdminDenied, 64)
	s := serverOf(busyWorker(), append([]func(*Options){func(o *Options) {
		o.Processes, o.Token, o.Observer = processes, testToken, observe.Observers{o.Feed, deniedTo(denied)}
	}}, changes...)...)
	if err := s.Listen([]string{filepath.Join(dir, "admin.sock")}, []string{"127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(s.Close(ctx), <-ended); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return served{s, t, denied}
}

// deniedTo passes on what was refused to commands.
type deniedTo chan observe.AdminDenied

func (c deniedTo) Begin(ctx context.Context, _ observe.Exec) context.Context { return ctx }

func (c deniedTo) Event(_ context.Context, e observe.Event) {
	if d, ok := e.(observe.AdminDenied); ok {
		c <- d
	}
}

// ask sends one request over tcp or unix. headers are names and values in turn;
// Host is one too.
func (s served) ask(network, method, path, body string, headers ...string) (code int, text string, header http.Header) {
	s.t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		if network == "unix" {
			return new(net.Dialer).DialContext(ctx, "unix", s.Socket())
		}
		return new(net.Dialer).DialContext(ctx, "tcp", s.Addrs()[0])
	}}
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://localhost"+path, content)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, string(got), answer.Header
}

// doorOf is the first door of a network.
func (s served) doorOf(network string) *door {
	for _, d := range s.doors {
		if d.network == network {
			return d
		}
	}
	s.t.Fatalf("no door of %s", network)
	return nil
}
