package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"execworker/daemon/observe"
)

func ended(id uint64) observe.Ended {
	return observe.Ended{Receipt: observe.Receipt{Exec: fakeExec(id)}}
}

func TestFeedKeepsTheLast(t *testing.T) {
	f := NewFeed()
	for id := range uint64(feedKept + 10) {
		f.Event(t.Context(), ended(id))
	}
	if f.Seq() != feedKept+10 {
		t.Errorf("seq %d", f.Seq())
	}
	items, ok := f.after(feedKept + 7)
	if !ok || len(items) != 3 || items[0].seq != feedKept+8 || items[0].event.(observe.Ended).Receipt.Exec.ID.ID != fmt.Sprint(feedKept+7) {
		t.Errorf("%v, %+v", ok, items)
	}
	for seq, want := range map[uint64]bool{9: false, 10: true, feedKept + 10: true, feedKept + 11: false} {
		if _, ok := f.after(seq); ok != want {
			t.Errorf("after %d: %v", seq, ok)
		}
	}
}

// Those who wait for one event take no place from those who follow.
func TestOnlyStreamsCount(t *testing.T) {
	f := NewFeed()
	for range 3 * followersMost {
		defer f.leave(f.follow(false))
	}
	var all []*follower
	for i := range followersMost {
		each := f.follow(true)
		if each == nil {
			t.Fatalf("the follower %d is turned away", i+1)
		}
		all = append(all, each)
	}
	if f.follow(true) != nil {
		t.Error("one too many follows")
	}
	for _, each := range all {
		f.leave(each)
	}
	if f.follow(true) == nil {
		t.Error("nobody follows, and the next is turned away")
	}
}

func TestTimesAreInTheOrderOfSeqs(t *testing.T) {
	f := NewFeed()
	const writers, each = 8, 20 * feedKept // so many that they come in each other's way
	var wg sync.WaitGroup
	defer wg.Wait()
	for range writers {
		wg.Go(func() {
			for range each {
				f.Event(context.Background(), observe.AdmissionOpened{})
			}
		})
	}
	for seq := uint64(0); seq < writers*each; {
		f.mu.Lock() // the ring as it is: who follows would be too slow
		seq = f.last
		for n := max(seq, feedKept) - feedKept + 2; n <= seq; n++ {
			if earlier, later := f.ring[(n-1)%feedKept], f.ring[n%feedKept]; later.at.Before(earlier.at) {
				t.Errorf("seq %d is before seq %d", later.seq, earlier.seq)
				seq = writers * each
				break
			}
		}
		f.mu.Unlock()
	}
}

func TestDeniedRequestsAreCounted(t *testing.T) {
	f := NewFeed()
	f.Event(t.Context(), observe.AdminDenied{Times: 1})
	f.Event(t.Context(), observe.AdminDenied{Times: 41})
	f.Event(t.Context(), ended(1))
	if f.Denied() != 42 {
		t.Errorf("%d", f.Denied())
	}
}

// line is one line of the NDJSON stream.
type line struct {
	Seq  uint64
	Type string
	Data json.RawMessage
}

// follower reads a stream of s from its begin.
func followEvents(t *testing.T, s served, query string, headers ...string) (next func() line, answer *http.Response) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.Addrs()[0]+"/admin/events"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	transport := &http.Transport{}
	answer, err = transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close(); transport.CloseIdleConnections() })
	lines := bufio.NewReader(answer.Body)
	return func() (l line) {
		t.Helper()
		text, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream ended: %v", err)
		}
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		return l
	}, answer
}

func TestStreamBeginsWithASnapshotAndGoesOn(t *testing.T) {
	s := serve(t, everybody(ours))
	s.feed.Event(t.Context(), ended(1))
	next, _ := followEvents(t, s, "?types=snapshot,exec.finished,exec.queued,cache.collision")
	if l := next(); l.Type != "snapshot" || l.Seq != 1 || !strings.Contains(string(l.Data), `"req_id":"1"`) {
		t.Fatalf("%+v", l)
	}
	s.feed.Event(t.Context(), observe.Judged{Exec: fakeExec(5), Verdict: observe.VerdictRun})
	s.feed.Event(t.Context(), observe.Judged{Exec: fakeExec(6), Verdict: observe.VerdictConflict})
	s.feed.Event(t.Context(), ended(5))
	for i, want := range []string{"exec.queued", "cache.collision", "exec.finished"} {
		if l := next(); l.Type != want || l.Seq != uint64(i+2) {
			t.Errorf("%+v, want %s", l, want)
		}
	}
}

func TestStreamIsTakenUpAgain(t *testing.T) {
	s := serve(t, everybody(ours))
	for id := range uint64(3) {
		s.feed.Event(t.Context(), ended(id))
	}
	next, _ := followEvents(t, s, "?since=1")
	for _, want := range []uint64{2, 3} {
		if l := next(); l.Seq != want || l.Type != "exec.finished" {
			t.Errorf("%+v, want seq %d", l, want)
		}
	}
	for _, gone := range []string{"?since=99", "?since=18446744073709551615"} {
		next, _ := followEvents(t, s, gone)
		if l := next(); l.Type != "snapshot" || l.Seq != 3 {
			t.Errorf("%s: %+v", gone, l)
		}
	}
}

func TestSSEHasTheSameSequence(t *testing.T) {
	s := serve(t, everybody(ours))
	s.feed.Event(t.Context(), ended(1))
	s.feed.Event(t.Context(), ended(2))
	_, answer := followEvents(t, s, "?types=exec.finished", "Accept", "text/event-stream", "Last-Event-ID", "1")
	if got := answer.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("type %s", got)
	}
	text := make([]byte, len("id: 2\nevent: exec.finished\ndata: {"))
	if _, err := io.ReadFull(answer.Body, text); err != nil || string(text) != "id: 2\nevent: exec.finished\ndata: {" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestStreamTellsProgressAndNothingElseTwice(t *testing.T) {
	s := serve(t, everybody(ours))
	w := s.worker.(*fakeWorker)
	next, _ := followEvents(t, s, "?types=snapshot,exec.progress")
	next()
	w.change(func(w *fakeWorker) { w.inflight[0].StdoutBytes += 10 })
	l := next()
	if l.Type != "exec.progress" || !strings.Contains(string(l.Data), fmt.Sprintf(`"stdout_bytes":%d`, 1<<20+10)) {
		t.Errorf("%+v", l)
	}
	w.change(func(w *fakeWorker) { w.inflight[0].StderrBytes += 1 })
	if l := next(); !strings.Contains(string(l.Data), `"stderr_bytes":13`) {
		t.Errorf("the next line is not the next change: %+v", l)
	}
}

func TestNinthFollowerIsTurnedAway(t *testing.T) {
	s := serve(t, everybody(ours))
	for range followersMost {
		next, _ := followEvents(t, s, "")
		next()
	}
	code, text, header := s.ask("unix", "GET", "/admin/events", "")
	if code != 503 || header.Get("Retry-After") == "" || !strings.Contains(text, "too-many") {
		t.Errorf("%d %s", code, text)
	}
}

// Whoever is no operator sees no command in the stream either.
func TestStreamOfOthersHasNoCommand(t *testing.T) {
	s := serve(t, everybody(theirs))
	next, _ := followEvents(t, s, "?types=snapshot,exec.queued")
	if l := next(); strings.Contains(string(l.Data), `"command":`) {
		t.Errorf("%s", l.Data)
	}
	s.feed.Event(t.Context(), observe.Judged{Exec: fakeExec(5), Verdict: observe.VerdictRun})
	if l := next(); strings.Contains(string(l.Data), `"command":`) || strings.Contains(string(l.Data), "hunter2") {
		t.Errorf("%s", l.Data)
	}
}

// Of several who follow, one of whom never reads, everybody else sees every
// event once and in order, or is given a new snapshot; and the worker never waits.
func TestReaderThatDoesNotReadIsNotFelt(t *testing.T) {
	s := serve(t, everybody(ours))
	_, _ = followEvents(t, s, "?types=exec.finished") // never read
	const events = 10_000
	var wg sync.WaitGroup
	for range followersMost - 1 {
		next, _ := followEvents(t, s, "?types=snapshot,exec.finished")
		next()
		wg.Go(func() {
			last := uint64(0)
			for last < events {
				l := next()
				if l.Type == "exec.finished" && l.Seq != last+1 || l.Seq < last {
					t.Errorf("seq %d after %d", l.Seq, last)
					return
				}
				last = l.Seq
			}
		})
	}
	began := time.Now()
	for id := range uint64(events) {
		s.feed.Event(context.Background(), ended(id))
	}
	if took := time.Since(began); took > 5*time.Second { // it would be for ever
		t.Errorf("%d events took %s", events, took)
	}
	wg.Wait()
}

func TestBadParametersOfTheStream(t *testing.T) {
	s := serverOf(busyWorker())
	for _, query := range []string{"?types=nonsense", "?since=x", "?since=-1", "?interval=1ms", "?interval=2h", "?format=json", "?unknown=1", "?since=1&since=2"} {
		if answer := ask(t, s, operator, "GET", "/events"+query); answer.Code != 400 || !strings.Contains(answer.Body.String(), "bad-parameter") {
			t.Errorf("%s: %d %s", query, answer.Code, answer.Body)
		}
	}
}

// What an event costs whoever reports it.
func BenchmarkEvent(b *testing.B) {
	for _, followers := range []int{0, followersMost} {
		b.Run(fmt.Sprintf("followers=%d", followers), func(b *testing.B) {
			f := NewFeed()
			for range followers {
				defer f.leave(f.follow(true)) // and is behind
			}
			var e observe.Event = observe.Dequeued{Exec: fakeExec(1)}
			b.ReportAllocs()
			for b.Loop() {
				f.Event(context.Background(), e)
			}
		})
	}
}
