package admin

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"execworker/daemon/observe"
)

// Whoever crowds TCP leaves the socket free, and probes everywhere: one that
// fails would end the sandbox.
func TestCrowdOfAsksLeavesSocketAndProbes(t *testing.T) {
	s := serve(t, everybody(ours))
	s.doorOf("tcp").looks = rate.NewLimiter(0, 0)
	for _, c := range []struct {
		network, path string
		want          int
	}{
		{"tcp", "/admin/status", 503}, {"tcp", "/livez", 200}, {"tcp", "/admin/v1/readyz?exclude=relay&exclude=admission", 200}, {"unix", "/admin/status", 200},
	} {
		code, text, header := s.ask(c.network, "GET", c.path, "")
		if code != c.want {
			t.Errorf("%s %s: %d %s", c.network, c.path, code, text)
		}
		if code == 503 && header.Get("Retry-After") != "1" {
			t.Errorf("%s %s: Retry-After %q", c.network, c.path, header.Get("Retry-After"))
		}
	}
}

// A path that only looks like a probe's is not let past the look.
func TestEscapedProbeIsNoProbe(t *testing.T) {
	s := serve(t, everybody(inside))
	if code, text, _ := s.ask("tcp", "GET", "/admin/%6Civez", ""); code != 403 {
		t.Errorf("%d %s", code, text)
	}
}

// Over the socket a command is known by the kernel's word, however often it asks.
func TestCommandOnTheSocketCostsNoLook(t *testing.T) {
	processes := everybody(inside)
	s := serve(t, processes)
	s.doorOf("unix").looks = rate.NewLimiter(0, 0)
	if code, text, _ := s.ask("unix", "GET", "/admin/status", ""); code != 403 {
		t.Errorf("%d %s", code, text)
	}
	if len(processes.inodes) > 0 {
		t.Errorf("%d looks at the process table", len(processes.inodes))
	}
}

// A look that hangs holds nobody up for long.
func TestLookIsWaitedForOnlySoLong(t *testing.T) {
	t.Parallel()
	s := serve(t, everybody(ours))
	d := s.doorOf("tcp")
	d.looking <- struct{}{}
	if code, text, _ := s.ask("tcp", "GET", "/admin/status", ""); code != 503 {
		t.Errorf("during a look: %d %s", code, text)
	}
	<-d.looking
	if code, text, _ := s.ask("tcp", "GET", "/admin/status", ""); code != 200 {
		t.Errorf("after it: %d %s", code, text)
	}
}

// Looks are taken one at a time at a door.
func TestOneLookAtATime(t *testing.T) {
	var now, most atomic.Int64
	s := serve(t, &fakeProcesses{holders: func(uint64) ([]observe.Origin, bool) {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		time.Sleep(5 * time.Millisecond) // for another one to come by
		return []observe.Origin{ours}, false
	}})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { s.ask("tcp", "GET", "/admin/status", "") })
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d looks at once", most.Load())
	}
}

// Commands cannot take all the room of the socket.
func TestCommandsGetHalfOfTheSocket(t *testing.T) {
	var outside atomic.Bool
	s := serve(t, &fakeProcesses{
		origin: func(int) observe.Origin {
			if outside.Load() {
				return ours
			}
			return inside
		},
		holders: func(uint64) ([]observe.Origin, bool) { return nil, false },
	})
	refused := 0
	for range connectionsMost + 6 {
		c, err := net.Dial("unix", s.Socket())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		// An answer says that it was let in, the end that it was not.
		io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err != nil {
			refused++
		}
	}
	if want := connectionsMost/2 + 6; refused != want {
		t.Errorf("%d were closed, want %d", refused, want)
	}
	outside.Store(true)
	if code, text, _ := s.ask("unix", "GET", "/admin/status", ""); code != 200 {
		t.Errorf("an operator: %d %s", code, text)
	}
}

// Guesses at once are no more than guesses in a row.
func TestGuessesAtOnceAreCounted(t *testing.T) {
	s := serve(t, everybody(theirs))
	d := s.doorOf("tcp")
	var wrong atomic.Int64
	start := make(chan struct{})
	long := "Bearer " + strings.Repeat("x", 1<<20) // takes a while to compare
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			<-start
			if d.checkToken(long, testToken).kind == badToken {
				wrong.Add(1)
			}
		})
	}
	close(start)
	all.Wait()
	if n := wrong.Load(); n < wrongTokens || n > wrongTokens+5 { // one more a second; generous for a slow machine
		t.Errorf("%d guesses were looked at, want %d", n, wrongTokens)
	}
}

func TestTokens(t *testing.T) {
	for _, c := range []struct {
		name, given, token string
		want               kind // none when it is right
	}{
		{"right", "Bearer " + testToken, testToken, kind{}},
		{"right, and the scheme is small", "bearer " + testToken, testToken, kind{}},
		{"wrong", "Bearer " + testToken + "x", testToken, badToken},
		{"a part of it", "Bearer " + testToken[:5], testToken, badToken},
		{"none", "Bearer ", testToken, badToken},
		{"none, and there is none", "Bearer ", "", badToken},
		{"one, and there is none", "Bearer x", "", badToken},
		{"another scheme", "Basic " + testToken, testToken, badToken},
		{"no scheme", testToken, testToken, badToken},
	} {
		got := kind{}
		if no := newDoor(nil, "tcp").checkToken(c.given, c.token); no != nil {
			got = no.kind
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got.name, c.want.name)
		}
	}
}

// The connection of a command ends with its answer.
func TestConnectionOfACommandEnds(t *testing.T) {
	s := serve(t, everybody(inside))
	c := s.say("GET /admin/status HTTP/1.1\r\nHost: localhost\r\n\r\nGET /admin/status HTTP/1.1\r\nHost: localhost\r\n\r\n")
	answer := wantAnswer(t, c, 10*time.Second)
	if answer.StatusCode != 403 || !answer.Close {
		t.Errorf("%d, closed: %v", answer.StatusCode, answer.Close)
	}
	wantEnd(t, c, 10*time.Second)
}
