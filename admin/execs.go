package admin

import (
	"fmt"
	"net/http"
	"time"

	"execworker/daemon/observe"
)

// execList is the answer to GET /execs and GET /execs/{req_id}.
type execList struct {
	head
	Execs []receiptView `json:"execs"`
}

var outcomes = []string{
	string(observe.OutcomeExit), string(observe.OutcomeSignal), string(observe.OutcomeTimeout), string(observe.OutcomeAbort),
	string(observe.OutcomeSpawnError), string(observe.OutcomeRefused), string(observe.OutcomeLost), string(observe.OutcomeDrained),
	string(observe.OutcomeUncontained),
}

func (s *Server) listExecs(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	p := paramsOf(r)
	outcome, least, since := p.word("outcome", outcomes...), p.millis("min_ms"), p.time("since", now)
	limit := p.count("limit", mostListed)
	if no := p.done(); no != nil {
		refuse(w, r, *no)
		return
	}
	list := execList{head: s.head(now), Execs: []receiptView{}}
	all := s.worker.Receipts()
	for _, x := range all {
		took := x.EndedAt.Sub(x.Exec.ReceivedAt)
		if outcome != "" && string(x.Outcome) != outcome || least > 0 && took < least || x.EndedAt.Before(since) {
			continue
		}
		if len(list.Execs) == limit {
			break
		}
		list.Execs = append(list.Execs, s.receipt(x, askerOf(r).class))
	}
	answer(w, r, http.StatusOK, list, func(t *table) { list.text(t, now, len(all)) })
}

func (l execList) text(t *table, now time.Time, all int) {
	switch {
	case all == 0:
		t.line("no exec has ended yet")
		return
	case len(l.Execs) == 0:
		t.line("none of the last %d matches", all)
		return
	}
	t.row("REQ_ID", "OUTCOME", "CODE", "BY", "ENDED", "TOOK", "QUEUE", "OUT", "ERR", "CPU", "RSS", "COMMAND")
	for _, x := range l.Execs {
		t.row(x.ReqID, x.Outcome, x.code(), x.EndedBy, x.ended(now), age(millis(x.TookMS)), age(millis(x.Phases.QueueMS)),
			size(x.StdoutBytes), size(x.StderrBytes), age(millis(x.CPUUserMS+x.CPUSystemMS)), size(x.MaxRSSBytes), x.commandText(40))
	}
	t.line("")
	t.line("more: /admin/execs/REQ_ID")
}

// code is what main ended with, for a column.
func (v receiptView) code() string {
	switch {
	case v.ExitCode != nil:
		return fmt.Sprint(*v.ExitCode)
	case v.Signal != nil:
		return *v.Signal
	}
	return ""
}

// ended is how long ago that was, for a column.
func (v receiptView) ended(now time.Time) string {
	if v.EndedAt == nil {
		return ""
	}
	return since(*when(now), *v.EndedAt) + " ago"
}

// showExec lists every run that is known under one req_id: a collision can give
// several.
func (s *Server) showExec(w http.ResponseWriter, r *http.Request) {
	id, no := reqIDOf(r)
	if no == nil {
		no = paramsOf(r).done()
	}
	if no != nil {
		refuse(w, r, *no)
		return
	}
	now := time.Now()
	list := execList{head: s.head(now), Execs: []receiptView{}}
	for _, x := range s.receiptsOf(id) {
		list.Execs = append(list.Execs, s.receipt(x, askerOf(r).class))
	}
	if len(list.Execs) == 0 {
		refuse(w, r, s.notEnded(id))
		return
	}
	answer(w, r, http.StatusOK, list, func(t *table) {
		for i, x := range list.Execs {
			if i > 0 {
				t.line("")
			}
			x.text(t, now)
		}
	})
}

// receiptsOf are the runs under one id, newest first.
func (s *Server) receiptsOf(id string) (found []observe.Receipt) {
	for _, x := range s.worker.Receipts() {
		if x.Exec.ID == (observe.ID{Source: observe.SourceSandbox, ID: id}) {
			found = append(found, x)
		}
	}
	return found
}

// notEnded says why there is no receipt.
func (s *Server) notEnded(id string) refusal {
	for _, x := range s.worker.Inflight() {
		if x.Exec.ID.ID == id {
			return refusal{kind: noExec, detail: "req_id " + id + " has not ended", hint: "see /admin/inflight/" + id, reqID: id}
		}
	}
	return refusal{kind: noExec, detail: "req_id " + id + " never came, or is long gone", hint: "/admin/execs lists the last 256", reqID: id}
}

// text is a receipt for eyes, every fact on its line.
func (v receiptView) text(t *table, now time.Time) {
	t.line("req_id %s: %s", v.ReqID, v.Sentence)
	t.row("command", v.commandText(200))
	t.row("came", fmt.Sprintf("%s on session %d, %d bytes of command, %d of stdin", word(v.ReceivedAt), v.ConnEpoch, v.CommandBytes, v.StdinBytes))
	t.row("ended", fmt.Sprintf("%s, %s, by %s", word(v.EndedAt), v.ended(now), v.EndedBy))
	p := v.Phases
	t.row("time", fmt.Sprintf("%s: queue %s, spawn %s, run %s (first byte after %s), drain %s, send blocked %s, kill %s",
		age(millis(v.TookMS)), age(millis(p.QueueMS)), age(millis(p.SpawnMS)), age(millis(p.RunMS)), age(millis(p.FirstByteMS)),
		age(millis(p.DrainMS)), age(millis(p.SendBlockedMS)), age(millis(p.KillMS))))
	t.row("cpu", fmt.Sprintf("user %s, system %s", age(millis(v.CPUUserMS)), age(millis(v.CPUSystemMS))))
	t.row("memory", size(v.MaxRSSBytes)+" at most, of its largest process")
	t.row("disk", fmt.Sprintf("read %s, written %s", size(v.IOReadBytes), size(v.IOWriteBytes)))
	t.row("output", fmt.Sprintf("stdout %d bytes (%d cut), stderr %d bytes (%d cut), %d chunks", v.StdoutBytes, v.StdoutCut, v.StderrBytes, v.StderrCut, v.Chunks))
	if v.OOM != nil {
		t.row("memory killer", v.OOM.Evidence+" (confidence "+v.OOM.Confidence+")")
	}
	if c := v.Containment; c.Level != nil {
		t.row("contained", fmt.Sprintf("level %s, %d rounds, %d reaped, %d left", *c.Level, c.Rounds, c.Reaped, len(c.Left)))
	}
	for _, p := range v.Survivors {
		t.row("left running", fmt.Sprintf("pid %d %s", p.PID, p.Name))
	}
	t.row("etag", v.Etag)
}
