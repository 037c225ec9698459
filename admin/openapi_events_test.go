package admin

import (
	"context"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"execworker/daemon/observe"
)

// everyEvent is one of each that the worker reports.
func everyEvent() []observe.Event {
	x, session := fakeExec(1), busyWorker().sessions[1]
	left := busyWorker().survivors[0].Processes
	return []observe.Event{
		observe.Judged{Exec: x, Verdict: observe.VerdictRun},
		observe.Judged{Exec: x, Verdict: observe.VerdictReplay},
		observe.Judged{Exec: x, Verdict: observe.VerdictConflict, Reason: "req_id conflict"},
		observe.Dequeued{Exec: x, Waited: time.Second},
		observe.Spawned{Exec: x, PID: 4242, Took: time.Millisecond},
		observe.FirstOutput{Exec: x, Stream: "stdout", After: time.Second},
		observe.AbortRequested{Exec: x, By: observe.EndedByAdmin, Reason: "too slow"},
		observe.KillBegan{Exec: x, By: observe.EndedByTimeout},
		observe.KillEnded{Exec: x, Took: time.Second, Containment: observe.Containment{Left: left}},
		observe.Ended{Receipt: busyWorker().receipts[0]},
		observe.SurvivorsFound{Exec: x, Processes: left, Kept: true},
		observe.SurvivorsGone{Exec: x},
		observe.Dialing{Session: session},
		observe.Attached{Session: session},
		observe.SessionEnded{Session: session, Next: time.Second},
		observe.FrameIgnored{Session: 1, Reason: "unknown frame"},
		observe.RogueKilled{Process: left[0]},
		observe.WorkspaceSwept{Key: "team-a", Error: "busy"},
		observe.AdmissionClosed{Reason: "maintenance"},
		observe.AdmissionOpened{},
		observe.AdminDenied{Exec: x.ID, Process: left[0], Method: "GET", Path: "/admin/inflight", Times: 2},
		observe.DrainBegan{Running: 1, Queued: 2},
		observe.DrainEnded{Took: time.Second, Swept: 1},
	}
}

// ownEvents are made for one stream: they are no events of the worker.
var ownEvents = []string{"snapshot", "exec.progress", "stats", "keepalive"}

func TestEveryTypeOfEventIsDescribed(t *testing.T) {
	if got, want := slices.Sorted(maps.Keys(eventData)), slices.Sorted(slices.Values(eventTypes)); !slices.Equal(got, want) {
		t.Errorf("described are %q, and there are %q", got, want)
	}
	s := serverOf(busyWorker())
	seen := map[string]bool{}
	for _, e := range everyEvent() {
		name, data := s.event(e, operator)
		seen[name] = true
		if reflect.TypeOf(data) != reflect.TypeOf(eventData[name]) {
			t.Errorf("%T is %q with a %T, described as %T", e, name, data, eventData[name])
		}
	}
	for _, name := range eventTypes {
		if seen[name] == slices.Contains(ownEvents, name) {
			t.Errorf("%s comes of an event: %t", name, seen[name])
		}
	}
}

// What a follower gets, and what an event is turned into, is as described.
func TestEventsAreAsDescribed(t *testing.T) {
	s := serverOf(busyWorker())
	schemaOf := map[string]map[string]any{}
	d := described(t, s)
	c := &checker{t: t, schemas: d.Components.Schemas, filled: map[string]bool{}, seen: map[string]bool{}}
	kinds := d.Paths[canonical+"/events"]["get"].Responses["200"].Content["application/x-ndjson"].Schema["oneOf"].([]any)
	for _, kind := range kinds {
		schemaOf[kind.(map[string]any)["title"].(string)] = kind.(map[string]any)
	}
	for _, e := range everyEvent() {
		s.feed.Event(context.Background(), e)
	}
	lines := followed(t, s, "/events?since=0") + followed(t, s, "/events")
	seen := map[string]bool{}
	for line := range strings.Lines(lines) {
		event := parsed(t, line).(map[string]any)
		name := event["type"].(string)
		seen[name] = true
		properties := schemaOf[name]["properties"].(map[string]any)
		for key, value := range event {
			if key != "type" { // by which it was found
				c.check(name+"."+key, properties[key].(map[string]any), value)
			}
		}
		if len(event) != len(properties) {
			t.Errorf("%s has %d keys, described are %d", name, len(event), len(properties))
		}
	}
	for _, name := range eventTypes {
		if late := name == "stats" || name == "exec.progress"; seen[name] == late { // they come when they are due
			t.Errorf("%s was sent: %t", name, seen[name])
		}
	}
}

// followed is what a stream begins with, up to its close.
func followed(t *testing.T, s *Server, target string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answer := askWith(ctx, s, operator, http.MethodGet, target)
	if answer.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", target, answer.Code, answer.Body)
	}
	return answer.Body.String()
}
