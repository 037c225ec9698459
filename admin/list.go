package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"execworker/daemon/observe"
)

// listRoutes are the lists of execs and of what is remembered of them.
func (s *Server) listRoutes() []route {
	return []route{
		{http.MethodGet, "/inflight", unknown, s.listInflight},
		{http.MethodGet, "/execs", unknown, s.listExecs},
		{http.MethodGet, "/execs/{req_id}", unknown, s.showExec},
		{http.MethodGet, "/cache", unknown, s.listCache},
		{http.MethodGet, "/survivors", unknown, s.listSurvivors},
		{http.MethodGet, "/survivors/{req_id}", unknown, s.showSurvivors},
		{http.MethodGet, "/connections", unknown, s.listConnections},
		{http.MethodGet, "/status", unknown, s.showStatus},
	}
}

// head is what every list begins with.
type head struct {
	Now *string `json:"now"`
	Seq uint64  `json:"seq"` // of the feed: events after it are not in the list
}

func (s *Server) head(now time.Time) head { return head{Now: when(now), Seq: s.feed.Seq()} }

// inflightList is the answer to GET /inflight.
type inflightList struct {
	head
	Running  int            `json:"running"`
	Queued   int            `json:"queued"`
	QueueCap int            `json:"queue_cap"`
	Execs    []inflightView `json:"execs"`
}

var states = []string{"waiting", "queued", "spawning", "running", "draining", "killing"}

func (s *Server) listInflight(w http.ResponseWriter, r *http.Request) {
	p := paramsOf(r)
	state, least, limit := p.word("state", states...), p.span("min_age"), p.count("limit", mostListed)
	sort := p.word("sort", "age", "idle", "bytes")
	if no := p.done(); no != nil {
		refuse(w, r, *no)
		return
	}
	seq := s.feed.Seq() // before the list: what follows it is in the list or in the feed, or in both
	status, all := s.worker.Status(), s.worker.Inflight()
	now := time.Now() // after it: nothing in it is younger
	picked := slices.DeleteFunc(slices.Clone(all), func(x observe.Inflight) bool {
		return state != "" && string(x.State) != state || least > 0 && now.Sub(x.Exec.ReceivedAt) < least
	})
	sortInflight(picked, sort, now)
	picked = picked[:min(len(picked), limit)]

	list := inflightList{head: head{Now: when(now), Seq: seq}, Running: status.Running, Queued: status.Queued, QueueCap: status.QueueCap, Execs: []inflightView{}}
	who := askerOf(r).class
	reasons := s.whys(r.Context(), picked, all, status, now, who)
	for _, x := range picked {
		v := s.inflight(x, now, who)
		if why, ok := reasons[x.Exec.Seq]; ok {
			v.Why = &whyView{Kind: why.kind, Sentence: why.sentence}
		}
		list.Execs = append(list.Execs, v)
	}
	answer(w, r, http.StatusOK, list, func(t *table) { list.text(t, s.slotsLine(status, now, who), len(all)) })
}

// mostListed is more than there can be in flight: slots, queue and heirs.
const mostListed = 10_000

func sortInflight(list []observe.Inflight, by string, now time.Time) {
	quiet := func(x observe.Inflight) time.Duration {
		if x.StartedAt.IsZero() {
			return -1 // what has not begun is not idle
		}
		return idle(x, now)
	}
	slices.SortStableFunc(list, func(a, b observe.Inflight) int {
		switch by {
		case "idle":
			return cmp.Compare(quiet(b), quiet(a))
		case "bytes":
			return cmp.Compare(b.StdoutBytes+b.StderrBytes, a.StdoutBytes+a.StderrBytes)
		case "age":
			return a.Exec.ReceivedAt.Compare(b.Exec.ReceivedAt)
		}
		return 0 // as they came
	})
}

func (l inflightList) text(t *table, slots string, all int) {
	t.line("%s", slots)
	switch {
	case all == 0:
		t.line("nothing is in flight")
		return
	case len(l.Execs) == 0:
		t.line("none of the %d in flight matches", all)
		return
	}
	t.row("REQ_ID", "STATE", "AGE", "IDLE", "OUT", "ERR", "PID", "COMMAND")
	for _, x := range l.Execs {
		pid, quiet := "", ""
		if x.PID != nil {
			pid = fmt.Sprint(*x.PID)
		}
		if x.IdleMS != nil {
			quiet = age(millis(*x.IdleMS))
		}
		t.row(x.ReqID, x.State, age(millis(x.AgeMS)), quiet, size(x.StdoutBytes), size(x.StderrBytes), pid, x.commandText(60))
	}
	t.line("")
	for _, x := range l.Execs {
		if x.Why != nil {
			t.row(x.ReqID, x.Why.Sentence)
		}
	}
	t.line("")
	t.line("more: /admin/inflight/REQ_ID    stop one: curl -X POST .../admin/inflight/REQ_ID/abort")
}

// commandText is the command for a column; whoever may not see it sees its name.
func (v execView) commandText(most int) string {
	if v.Command == nil {
		return v.CommandName
	}
	return quoted(*v.Command, most)
}

// slotsLine is the worker in one line, above every list of execs.
func (s *Server) slotsLine(v observe.Status, now time.Time, who class) string {
	line := fmt.Sprintf("running %d of %d, queued %d of %d, relay %s", v.Running, v.CapacityMax, v.Queued, v.QueueCap, s.connection(v).text(now))
	switch {
	case v.Draining:
		line += ", the worker is stopping"
	case v.Closed && who == operator:
		line += ", new execs are refused: " + quoted(s.reason(v.ClosedReason, who), 60)
	case v.Closed:
		line += ", new execs are refused"
	}
	return line
}

// relayState is where the worker stands with its relay.
func relayState(s observe.Status) string {
	switch {
	case s.Attached:
		return "attached"
	case s.Draining && s.Session == 0:
		return "stopping" // it will not dial again
	case !s.NextAttempt.IsZero():
		return "waiting"
	}
	return "dialing"
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// cacheList is the answer to GET /cache. There is no way to take something out:
// a redelivery would run twice.
type cacheList struct {
	head
	Capacity  int         `json:"capacity"`
	Len       int         `json:"len"`
	Hits      int64       `json:"hits"`
	Misses    int64       `json:"misses"`
	Reruns    int64       `json:"collisions_rerun"`
	Refused   int64       `json:"collisions_refused"`
	Evictions int64       `json:"evictions"`
	Entries   []cacheView `json:"entries"`
}

type cacheView struct {
	ReqID       string  `json:"req_id"`
	Fingerprint string  `json:"fingerprint"` // its first 12 hex digits
	Terminal    string  `json:"terminal"`    // end or error
	Outcome     string  `json:"outcome"`
	ExitCode    *int    `json:"exit_code"`
	ErrorClass  *string `json:"error_class"`
	Truncated   bool    `json:"truncated"`
	StoredAt    *string `json:"stored_at"`
	AgeMS       int64   `json:"age_ms"`
	Hits        int64   `json:"hits"`
	LastHitAt   *string `json:"last_hit_at"`
	TraceID     *string `json:"trace_id"`
}

func (s *Server) listCache(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	p := paramsOf(r)
	outcome, limit := p.word("outcome", "exit", "timeout"), p.count("limit", mostListed)
	if no := p.done(); no != nil {
		refuse(w, r, *no)
		return
	}
	head, d := s.head(now), s.worker.Dedup()
	list := cacheList{
		head: head, Capacity: d.Capacity, Len: len(d.Entries), Hits: d.Hits, Reruns: d.Collisions, Refused: d.Conflicts,
		Evictions: d.Evictions, Misses: max(0, s.worker.Status().Totals.Execs-d.Collisions), // what ran and was no collision
		Entries: []cacheView{},
	}
	for _, e := range d.Entries {
		if outcome != "" && string(e.Outcome) != outcome || len(list.Entries) == limit {
			continue
		}
		v := cacheView{
			ReqID: e.ID.ID, Fingerprint: short(e.Fingerprint), Terminal: "end", Outcome: string(e.Outcome), Truncated: e.Truncated,
			StoredAt: when(e.StoredAt), AgeMS: ms(now.Sub(e.StoredAt)), Hits: e.Hits, LastHitAt: when(e.LastHitAt), TraceID: optional(e.TraceID),
		}
		if e.Outcome == observe.OutcomeTimeout {
			v.Terminal, v.ErrorClass = "error", some("timeout")
		} else {
			v.ExitCode = &e.ExitCode
		}
		list.Entries = append(list.Entries, v)
	}
	answer(w, r, http.StatusOK, list, list.text)
}

func (l cacheList) text(t *table) {
	t.line("%d of %d kept; %d replayed, %d ran again under a finished req_id, %d refused under a running one, %d evicted",
		l.Len, l.Capacity, l.Hits, l.Reruns, l.Refused, l.Evictions)
	if len(l.Entries) == 0 {
		return
	}
	t.row("REQ_ID", "OUTCOME", "CODE", "STORED", "REPLAYED", "FINGERPRINT")
	for _, e := range l.Entries {
		code := ""
		if e.ExitCode != nil {
			code = fmt.Sprint(*e.ExitCode)
		}
		t.row(e.ReqID, e.Outcome, code, age(millis(e.AgeMS))+" ago", e.Hits, e.Fingerprint)
	}
}
