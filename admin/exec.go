package admin

import (
	"context"
	"net/http"
	"time"

	"execworker/daemon/observe"
)

// execRoutes are about one exec in flight.
func (s *Server) execRoutes() []route {
	return []route{{http.MethodGet, "/inflight/{req_id}", unknown, s.showInflight}}
}

// inflightDetail is the answer to GET /inflight/{req_id}: the list's view, and
// what the reason rests on.
type inflightDetail struct {
	head
	inflightView
	Evidence   []string            `json:"evidence"`
	Timeline   []timelineView      `json:"timeline"`
	Processes  []processDetailView `json:"processes"` // of its tree; empty for others than operators
	More       int                 `json:"processes_more"`
	WindowMS   int64               `json:"window_ms"` // that cpu_window_ms is taken in
	Pipes      []pipeView          `json:"pipes"`
	Unreadable []string            `json:"unreadable"`
}

// processDetailView is a process, looked at closely.
type processDetailView struct {
	processView
	Main     bool    `json:"main"`
	PGID     int     `json:"pgid"`
	SID      int     `json:"sid"`
	Threads  int     `json:"threads"`
	RSSBytes int64   `json:"rss_bytes"`
	CPUMS    int64   `json:"cpu_ms"`
	InWindow int64   `json:"cpu_window_ms"`
	Syscall  *string `json:"syscall"` // null: in none, or unreadable
	FD       *int    `json:"fd"`
	File     *string `json:"file"`
	Command  *string `json:"command"`  // null: unreadable
	LockPID  *int    `json:"lock_pid"` // who holds the file lock that it waits for; null: none, or not known
	Waits    string  `json:"waits"`    // the same in words
}

// pipeView is a process that holds one of the exec's streams open.
type pipeView struct {
	Stream  string      `json:"stream"`
	Process processView `json:"process"`
	Command *string     `json:"command"`
	FD      int         `json:"fd"`
	Writes  bool        `json:"writes"`
	Member  bool        `json:"member"` // of the exec's tree
	SID     int         `json:"sid"`
}

func (s *Server) showInflight(w http.ResponseWriter, r *http.Request) {
	id, no := reqIDOf(r)
	p := paramsOf(r)
	procs := p.word("procs", "0", "1") != "0"
	if no == nil {
		no = p.done()
	}
	if no != nil {
		refuse(w, r, *no)
		return
	}
	who := askerOf(r).class
	h := s.head(time.Now()) // before the snapshot: what follows its seq is in that or in the feed, or in both
	x, ok := s.inFlight(id, 0)
	if !ok {
		refuse(w, r, s.notInFlight(id))
		return
	}
	var look *observe.Inspection
	unseen := unseenAsked
	if procs && who == operator && !x.StartedAt.IsZero() {
		look, unseen = s.inspect(r.Context(), x.Exec.Seq)
		if later, ok := s.inFlight(id, x.Exec.Seq); ok {
			x = later // as of the look, which takes its time
		}
	}
	now := time.Now()
	h.Now = when(now)
	d := inflightDetail{head: h, inflightView: s.inflight(x, now, who), Timeline: timeline(x), Evidence: []string{}, Unreadable: []string{}, Processes: []processDetailView{}, Pipes: []pipeView{}}
	in := situation{now: now, all: s.worker.Inflight(), status: s.worker.Status(), show: s.options.Preview, unseen: unseen}
	reason := in.explain(x, look, who)
	d.Why = &whyView{Kind: reason.kind, Sentence: reason.sentence}
	d.Evidence = append(d.Evidence, reason.evidence...)
	if look != nil {
		d.Processes, d.Pipes = s.processDetails(look), s.pipes(look)
		d.More, d.WindowMS = look.More, ms(look.Window)
		d.Unreadable = append(d.Unreadable, look.Unreadable...)
	}
	answer(w, r, http.StatusOK, d, d.text)
}

// inspect looks at one exec, files included. Without a look unseen says why.
func (s *Server) inspect(ctx context.Context, seq uint64) (look *observe.Inspection, unseen string) {
	const lookMost = 3 * time.Second
	ctx, cancel := context.WithTimeout(ctx, lookMost)
	defer cancel()
	look = inspectionOf(s.worker.Inspect(ctx, []uint64{seq}, true), seq)
	return look, unseenBy(ctx)
}

// notInFlight says where else to look.
func (s *Server) notInFlight(id string) refusal {
	for _, x := range s.worker.Survivors() {
		if x.Exec.ID == sandboxID(id) {
			return refusal{kind: noExec, detail: "req_id " + id + " has ended, and left something running", hint: "see /admin/survivors/" + id, reqID: id}
		}
	}
	if len(s.receiptsOf(id)) > 0 {
		return refusal{kind: noExec, detail: "req_id " + id + " has ended", hint: "see /admin/execs/" + id, reqID: id}
	}
	return refusal{kind: noExec, detail: "req_id " + id + " never came, or is long gone", hint: "see /admin/inflight and /admin/execs", reqID: id}
}

func (s *Server) processDetails(look *observe.Inspection) []processDetailView {
	views := make([]processDetailView, 0, len(look.Processes))
	for _, p := range look.Processes {
		v := processDetailView{
			processView: viewProcess(p.Process), Main: p.Main, PGID: p.Group, SID: p.Session, Threads: p.Threads, RSSBytes: p.RSSBytes,
			CPUMS: ms(p.CPU), InWindow: ms(p.InWindow), Syscall: optional(p.Call), Waits: waitOf(p, look.Window).full(),
		}
		if p.FD >= 0 {
			v.FD = &p.FD
			v.File = optional(printable(p.File))
		}
		if p.Command != "" {
			v.Command = some(s.options.Preview(p.Command))
		}
		if p.LockHolder.PID > 0 {
			v.LockPID = &p.LockHolder.PID
		}
		views = append(views, v)
	}
	return views
}

func (s *Server) pipes(look *observe.Inspection) []pipeView {
	views := make([]pipeView, 0, len(look.Pipes))
	for _, h := range look.Pipes {
		v := pipeView{Stream: h.Stream, Process: viewProcess(h.Process), FD: h.FD, Writes: h.Writes, Member: h.Member, SID: h.Session}
		if h.Command != "" {
			v.Command = some(s.options.Preview(h.Command))
		}
		views = append(views, v)
	}
	return views
}
