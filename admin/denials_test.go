package admin

import (
	"net/http/httptest"
	"testing"
	"time"

	"execworker/daemon/observe"
)

// told is where denials report to, for one test.
func told(t *testing.T) (*denials, chan observe.AdminDenied) {
	events := make(chan observe.AdminDenied, 4096)
	d := &denials{observer: deniedTo(events), execs: map[observe.ID]*denial{}}
	t.Cleanup(d.close)
	return d, events
}

func TestNoRefusedRequestIsForgotten(t *testing.T) {
	d, events := told(t)
	for range 1000 {
		d.add(inside, httptest.NewRequest("GET", "/admin/status", nil))
	}
	d.close()
	close(events)
	n, times := 0, 0
	for e := range events {
		n++
		times += e.Times
	}
	if times != 1000 || n > 20 { // one a second; generous for a slow machine
		t.Errorf("%d events tell of %d requests", n, times)
	}
}

// What came too early for an event of its own gets one though nothing comes after.
func TestLastRefusedRequestIsReported(t *testing.T) {
	t.Parallel()
	d, events := told(t)
	d.add(inside, httptest.NewRequest("GET", "/first", nil))
	d.add(inside, httptest.NewRequest("GET", "/second", nil))
	d.add(inside, httptest.NewRequest("POST", "/third", nil))
	for _, want := range []struct {
		path  string
		times int
	}{{"/first", 1}, {"/third", 2}, {"/fourth", 1}} {
		select {
		case e := <-events:
			if e.Path != want.path || e.Times != want.times {
				t.Errorf("%+v, want %+v", e, want)
			}
			if e.Path == "/third" {
				d.add(inside, httptest.NewRequest("GET", "/fourth", nil))
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no event of %s", want.path)
		}
	}
}

// Execs do not wait for each other, nor for more than there is room for.
func TestEachExecIsReportedAtOnce(t *testing.T) {
	d, events := told(t)
	for i := range denialsKept + 10 {
		d.add(observe.Origin{Exec: observe.SandboxID(uint64(i))}, httptest.NewRequest("GET", "/", nil))
	}
	if len(events) != denialsKept+10 || len(d.execs) != denialsKept {
		t.Errorf("%d events, %d execs are kept", len(events), len(d.execs))
	}
}
