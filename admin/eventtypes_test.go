package admin

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"execworker/daemon/observe"
)

// Every event there is has a type that can be asked for.
func TestEveryEventHasAType(t *testing.T) {
	s := serverOf(busyWorker())
	tried := map[string]bool{"OutputGrew": true} // the feed does not keep it: exec.progress says the same
	for _, e := range []observe.Event{
		observe.Judged{}, observe.Judged{Collided: true}, observe.Judged{Verdict: observe.VerdictRun}, observe.Dequeued{}, observe.Spawned{}, observe.FirstOutput{},
		observe.AbortRequested{}, observe.KillBegan{}, observe.KillEnded{}, observe.Ended{}, observe.SurvivorsFound{}, observe.SurvivorsGone{},
		observe.Dialing{}, observe.Attached{}, observe.SessionEnded{}, observe.FrameIgnored{}, observe.RogueKilled{}, observe.WorkspaceSwept{},
		observe.AdmissionClosed{}, observe.AdmissionOpened{}, observe.AdminDenied{}, observe.DrainBegan{}, observe.DrainEnded{},
	} {
		tried[strings.TrimPrefix(fmt.Sprintf("%T", e), "observe.")] = true
		if name, data := s.event(e, operator); !slices.Contains(eventTypes, name) || data == nil {
			t.Errorf("%T is %q", e, name)
		}
	}
	source, err := os.ReadFile("../daemon/observe/event.go")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^func \((\w+)\) event\(\)`).FindAllStringSubmatch(string(source), -1)
	for _, each := range all {
		if !tried[each[1]] {
			t.Errorf("observe.%s has no type", each[1])
		}
	}
	if len(all) != len(tried) {
		t.Errorf("%d events in the source, %d tried", len(all), len(tried))
	}
}
