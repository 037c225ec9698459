package admin

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"

	"execworker/daemon/observe"
)

// statusView is the answer to GET /status.
type statusView struct {
	APIVersion   string         `json:"api_version"`
	Now          *string        `json:"now"`
	Seq          uint64         `json:"seq"`
	StartedAt    *string        `json:"started_at"`
	UptimeMS     int64          `json:"uptime_ms"`
	InstanceID   string         `json:"instance_id"`
	BootID       *string        `json:"boot_id"`
	SandboxID    string         `json:"sandbox_id"`
	Version      string         `json:"version"`
	GoVersion    string         `json:"go_version"`
	PID          int            `json:"pid"`
	Arch         string         `json:"arch"`
	Trust        string         `json:"trust"`
	Image        string         `json:"image"`
	Capabilities []string       `json:"capabilities"`
	Containment  string         `json:"containment"`
	CapacityMax  int            `json:"capacity_max"`
	Running      int            `json:"running"`
	Queued       int            `json:"queued"`
	QueueCap     int            `json:"queue_cap"`
	Survivors    int            `json:"survivors"` // trees
	Draining     bool           `json:"draining"`
	Closed       bool           `json:"closed"`
	ClosedReason *string        `json:"closed_reason"`
	Connection   connectionView `json:"connection"`
	Totals       totalsView     `json:"totals"`
	Admin        adminView      `json:"admin"`
	Telemetry    telemetryView  `json:"telemetry"`
}

// telemetryView is where spans and metrics are sent, and how that goes.
type telemetryView struct {
	Traces  exporterView `json:"traces"`
	Metrics exporterView `json:"metrics"`
}

type exporterView struct {
	Exporter  string  `json:"exporter"` // none, otlp or console
	Endpoint  *string `json:"endpoint"`
	LastOKAt  *string `json:"last_ok_at"`
	LastError *string `json:"last_error"`
	Dropped   int64   `json:"dropped"`
}

type connectionView struct {
	State           string  `json:"state"`
	Epoch           uint64  `json:"epoch"`
	Since           *string `json:"since"`
	LastRecvAt      *string `json:"last_recv_at"`
	LastHeartbeatAt *string `json:"last_heartbeat_at"`
}

type totalsView struct {
	Execs         int64 `json:"execs"`
	Timeouts      int64 `json:"timeouts"`
	Aborts        int64 `json:"aborts"`
	Refused       int64 `json:"refused"`
	DedupHits     int64 `json:"dedup_hits"`
	Collisions    int64 `json:"collisions"`
	OrphansReaped int64 `json:"orphans_reaped"`
}

// adminView is the API itself.
type adminView struct {
	Socket   string   `json:"socket"`
	Addrs    []string `json:"addrs"`
	Problems []string `json:"problems"`
	Denied   int64    `json:"denied"` // requests of processes that came out of commands
}

func (s *Server) showStatus(w http.ResponseWriter, r *http.Request) {
	if no := paramsOf(r).done(); no != nil {
		refuse(w, r, *no)
		return
	}
	now := time.Now()
	v := s.status(now, askerOf(r).class)
	answer(w, r, http.StatusOK, v, func(t *table) { v.text(t, now) })
}

func (s *Server) status(now time.Time, who class) statusView {
	st := s.worker.Status()
	v := statusView{
		APIVersion: "v1", Now: when(now), Seq: s.feed.Seq(), StartedAt: when(st.StartedAt), UptimeMS: ms(now.Sub(st.StartedAt)),
		InstanceID: s.options.InstanceID, BootID: optional(s.options.BootID), SandboxID: st.SandboxID,
		Version: s.options.Version, GoVersion: runtime.Version(), PID: os.Getpid(), Arch: st.Arch, Trust: st.Trust, Image: st.Image,
		Capabilities: append([]string{}, st.Capabilities...), Containment: st.Containment, CapacityMax: st.CapacityMax,
		Running: st.Running, Queued: st.Queued, QueueCap: st.QueueCap, Survivors: st.Survivors,
		Draining: st.Draining, Closed: st.Closed,
		Totals:    totals(st),
		Telemetry: s.exporters(),
		Admin:     adminView{Socket: s.Socket(), Addrs: append([]string{}, s.Addrs()...), Problems: append([]string{}, s.Problems()...), Denied: s.feed.Denied()},
	}
	if st.Closed {
		v.ClosedReason = some(s.reason(st.ClosedReason, who))
	}
	v.Connection = s.connection(st)
	return v
}

// exporters is where spans and metrics go. An error of a collector's may quote
// what it was sent.
func (s *Server) exporters() telemetryView {
	view := func(e Exporter) exporterView {
		v := exporterView{Exporter: e.Exporter, Endpoint: optional(e.Endpoint), LastOKAt: when(e.LastOK), Dropped: e.Dropped}
		if e.LastErr != "" {
			v.LastError = some(s.options.Preview(e.LastErr))
		}
		return v
	}
	if s.options.Exporters == nil {
		return telemetryView{Traces: exporterView{Exporter: "none"}, Metrics: exporterView{Exporter: "none"}}
	}
	traces, metrics := s.options.Exporters()
	return telemetryView{Traces: view(traces), Metrics: view(metrics)}
}

// connection is where the worker stands with its relay, and since when.
func (s *Server) connection(st observe.Status) connectionView {
	v := connectionView{State: relayState(st), Epoch: st.Session}
	sessions := s.worker.Sessions()
	if len(sessions) == 0 {
		return v
	}
	x := sessions[0]
	v.LastRecvAt, v.LastHeartbeatAt = when(x.LastRecvAt), when(x.HeartbeatAt)
	switch {
	case st.Attached:
		v.Since = when(x.HelloAt)
	case !x.EndedAt.IsZero():
		v.Since = when(x.EndedAt)
	default:
		v.Since = when(x.DialedAt)
	}
	return v
}

// text is the state and how long it has been so.
func (v connectionView) text(now time.Time) string {
	if v.Since == nil {
		return v.State
	}
	return v.State + " for " + since(*when(now), *v.Since)
}

func totals(st observe.Status) totalsView {
	return totalsView{
		Execs: st.Totals.Execs, Timeouts: st.Totals.Timeouts, Aborts: st.Totals.Aborts, Refused: st.Totals.Refused,
		DedupHits: st.Totals.Replays, Collisions: st.Totals.Collisions, OrphansReaped: st.OrphansReaped,
	}
}

func (v statusView) text(t *table, now time.Time) {
	t.row("sandbox", ascii(v.SandboxID))
	t.row("worker", fmt.Sprintf("%s, %s, pid %d, %s, up %s", v.Version, v.GoVersion, v.PID, v.Arch, age(millis(v.UptimeMS))))
	t.row("relay", fmt.Sprintf("%s (session %d)", v.Connection.text(now), v.Connection.Epoch))
	t.row("execs", fmt.Sprintf("running %d of %d, queued %d of %d, %d left survivors", v.Running, v.CapacityMax, v.Queued, v.QueueCap, v.Survivors))
	admission := "open"
	switch {
	case v.Draining:
		admission = "the worker is stopping"
	case v.Closed:
		admission = "new execs are refused: " + quoted(*v.ClosedReason, 120)
	}
	t.row("admission", admission)
	n := v.Totals
	t.row("since start", fmt.Sprintf("%d execs, %d timeouts, %d aborts, %d refused, %d replayed, %d collisions, %d orphans reaped",
		n.Execs, n.Timeouts, n.Aborts, n.Refused, n.DedupHits, n.Collisions, n.OrphansReaped))
	t.row("containment", v.Containment)
	t.row("trust", ascii(v.Trust))
	t.row("image", ascii(v.Image))
	var can []string
	for _, c := range v.Capabilities {
		can = append(can, ascii(c))
	}
	t.row("can", strings.Join(can, " "))
	t.row("admin", strings.Join(append([]string{ascii(v.Admin.Socket)}, v.Admin.Addrs...), ", "))
	t.row("refused", fmt.Sprintf("%d requests that came out of commands", v.Admin.Denied))
	t.row("traces", v.Telemetry.Traces.text())
	t.row("metrics", v.Telemetry.Metrics.text())
	for _, problem := range v.Admin.Problems {
		t.row("admin problem", quoted(problem, 200))
	}
	t.row("instance", v.InstanceID)
}

func (v exporterView) text() string {
	text := v.Exporter
	if v.Endpoint != nil {
		text += " to " + ascii(*v.Endpoint)
	}
	if v.LastOKAt != nil {
		text += ", last sent " + *v.LastOKAt
	}
	if v.Dropped > 0 {
		text += fmt.Sprintf(", %d lost", v.Dropped)
	}
	if v.LastError != nil {
		text += ", last error " + quoted(*v.LastError, 100)
	}
	return text
}
