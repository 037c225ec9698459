package contract

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every metric and label that the dashboard and the alerts ask for is on the
// page of a real worker.
func TestDashboardAsksForWhatThereIs(t *testing.T) {
	_, s, w := attach(t, nil)
	alive(t, s)
	s.Exec(t, 1, "sleep 300")
	s.Exec(t, 2, "kill $$")
	s.WantEnd(t, 2, -1)
	s.Abort(t, 1)
	s.WantEnd(t, 1, -1)
	overSocket(w).ask(t, "GET", "/admin/inflight/1", "")
	page := overSocket(w).ask(t, "GET", "/metrics", "").body
	if want := `http_server_request_duration_seconds_count{http_request_method="GET",http_response_status_code="404",http_route="/admin/inflight/{req_id}"} 1`; !strings.Contains(page, want) {
		t.Errorf("requests are not counted by their route: %s", want)
	}
	name := regexp.MustCompile(`sandbox_[a-z_]+`)
	label := regexp.MustCompile(`(?:by \(|\{\{|[{,])([a-z_]+)(?:[,)}]|=~?\\?")`)
	for _, file := range []string{"grafana.json", "alerts.yaml"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", file))
		if err != nil {
			t.Fatal(err)
		}
		found := name.FindAllString(string(text), -1)
		if len(found) < 5 {
			t.Errorf("%s asks for %d metrics", file, len(found))
		}
		for _, metric := range found {
			if !strings.Contains(page, "\n"+metric+"{") && !strings.Contains(page, "\n"+metric+" ") {
				t.Errorf("%s asks for %s, which is not there", file, metric)
			}
		}
		for _, m := range label.FindAllStringSubmatch(string(text), -1) {
			switch m[1] {
			case "instance", "le", "datasource": // not of ours
			default:
				if !strings.Contains(page, m[1]+`="`) {
					t.Errorf("%s asks for the label %s, which is not there", file, m[1])
				}
			}
		}
	}
}
