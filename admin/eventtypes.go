package admin

import (
	"time"

	"execworker/daemon/observe"
)

// eventTypes are all there are, for types=. The last four are made for one
// stream when they are due and are not kept.
var eventTypes = []string{
	"exec.queued", "exec.judged", "exec.dequeued", "exec.started", "exec.first_output", "exec.abort_requested",
	"exec.killing", "exec.killed", "exec.finished", "exec.survivors", "exec.survivors_gone", "cache.collision",
	"conn.state", "conn.frame_ignored", "process.rogue_killed", "workspace.swept",
	"worker.admission", "worker.draining", "worker.drained", "admin.denied",
	"snapshot", "exec.progress", "stats", "keepalive",
}

// judgedData tells of an Exec frame and what was decided about it.
type judgedData struct {
	execView
	Verdict  string `json:"verdict"`
	Reason   string `json:"reason"`
	Collided bool   `json:"collided"`
	Queued   int    `json:"queued"`
	Running  int    `json:"running"`
}

// stepData tells of a step of an exec. What does not belong to a step is null.
type stepData struct {
	ReqID     string        `json:"req_id"`
	Etag      *string       `json:"etag"`
	PID       *int          `json:"pid"`
	TookMS    *int64        `json:"took_ms"`
	Stream    *string       `json:"stream"`
	By        *string       `json:"by"`
	Reason    *string       `json:"reason"`
	Left      []processView `json:"left"`
	Processes []processView `json:"processes"`
	Kept      *bool         `json:"kept"`
}

// workerData tells of the worker and its relay.
type workerData struct {
	State    *string      `json:"state"`
	Session  *sessionView `json:"session"`
	NextMS   *int64       `json:"next_ms"`
	Open     *bool        `json:"open"`
	Reason   *string      `json:"reason"`
	Running  *int         `json:"running"`
	Queued   *int         `json:"queued"`
	Swept    *int         `json:"swept"`
	Key      *string      `json:"workspace_key"`
	Process  *processView `json:"process"`
	ReqID    *string      `json:"req_id"`
	Method   *string      `json:"method"`
	Path     *string      `json:"path"`
	Times    *int         `json:"times"`
	TookMS   *int64       `json:"took_ms"`
	Problems *string      `json:"error"`
}

// event makes of an event its type and what is shown of it.
func (s *Server) event(e observe.Event, who class) (name string, data any) {
	switch e := e.(type) {
	case observe.Judged:
		d := judgedData{execView: s.exec(e.Exec, who), Verdict: string(e.Verdict), Reason: e.Reason, Collided: e.Collided, Queued: e.Queued, Running: e.Running}
		switch {
		case e.Collided, e.Verdict == observe.VerdictConflict:
			return "cache.collision", d
		case e.Verdict == observe.VerdictRun, e.Verdict == observe.VerdictWait:
			return "exec.queued", d
		}
		return "exec.judged", d
	case observe.Dequeued:
		return "exec.dequeued", s.step(e.Exec, func(d *stepData) { d.TookMS = some(ms(e.Waited)) })
	case observe.Spawned:
		return "exec.started", s.step(e.Exec, func(d *stepData) { d.PID, d.TookMS = &e.PID, some(ms(e.Took)) })
	case observe.FirstOutput:
		return "exec.first_output", s.step(e.Exec, func(d *stepData) { d.Stream, d.TookMS = &e.Stream, some(ms(e.After)) })
	case observe.AbortRequested:
		return "exec.abort_requested", s.step(e.Exec, func(d *stepData) { d.By, d.Reason = some(string(e.By)), some(s.reason(e.Reason, who)) })
	case observe.KillBegan:
		return "exec.killing", s.step(e.Exec, func(d *stepData) { d.By = some(string(e.By)) })
	case observe.KillEnded:
		return "exec.killed", s.step(e.Exec, func(d *stepData) { d.TookMS, d.Left = some(ms(e.Took)), viewProcesses(e.Containment.Left) })
	case observe.Ended:
		return "exec.finished", s.receipt(e.Receipt, who)
	case observe.SurvivorsFound:
		return "exec.survivors", s.step(e.Exec, func(d *stepData) { d.Kept, d.Processes = &e.Kept, viewProcesses(e.Processes) })
	case observe.SurvivorsGone:
		return "exec.survivors_gone", s.step(e.Exec, func(*stepData) {})
	}
	return s.workerEvent(e, who)
}

func (s *Server) workerEvent(e observe.Event, who class) (name string, data any) {
	var d workerData
	switch e := e.(type) {
	case observe.Dialing:
		d.State, d.Session = some("dialing"), some(s.session(e.Session, time.Now()))
		return "conn.state", d
	case observe.Attached:
		d.State, d.Session = some("attached"), some(s.session(e.Session, time.Now()))
		return "conn.state", d
	case observe.SessionEnded:
		d.State, d.Session, d.NextMS = some("waiting"), some(s.session(e.Session, time.Now())), some(ms(e.Next))
		return "conn.state", d
	case observe.FrameIgnored:
		d.Reason = some(s.options.Preview(e.Reason))
		return "conn.frame_ignored", d
	case observe.RogueKilled:
		d.Process = some(viewProcess(e.Process))
		return "process.rogue_killed", d
	case observe.WorkspaceSwept:
		d.Key, d.Problems = some(s.reason(e.Key, who)), some(s.reason(e.Error, who))
		return "workspace.swept", d
	case observe.AdmissionClosed:
		d.Open, d.Reason = some(false), some(s.reason(e.Reason, who))
		return "worker.admission", d
	case observe.AdmissionOpened:
		d.Open = some(true)
		return "worker.admission", d
	case observe.AdminDenied:
		d.ReqID, d.Process, d.Method = optional(e.Exec.ID), some(viewProcess(e.Process)), &e.Method
		d.Path, d.Times = some(s.options.Preview(e.Path)), &e.Times
		return "admin.denied", d
	case observe.DrainBegan:
		d.Running, d.Queued = &e.Running, &e.Queued
		return "worker.draining", d
	case observe.DrainEnded:
		d.TookMS, d.Swept = some(ms(e.Took)), &e.Swept
		return "worker.drained", d
	}
	return "", nil
}

func (s *Server) step(x observe.Exec, fill func(*stepData)) stepData {
	d := stepData{ReqID: x.ID.ID, Etag: some(etagOf(x.Seq)), Left: []processView{}, Processes: []processView{}}
	fill(&d)
	return d
}
