package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"execworker/daemon/observe"
)

// survivorList is the answer to GET /survivors and GET /survivors/{req_id}.
type survivorList struct {
	head
	Survivors []survivorsView `json:"survivors"`
}

// survivorsView is what one command left running. Its last output is there for
// an operator only: others do not get the keys.
type survivorsView struct {
	execView
	Since     *string       `json:"since"`
	AgeMS     int64         `json:"age_ms"`
	Processes []processView `json:"processes"`
	TailBytes int           `json:"tail_bytes"`     // that are kept
	TailCut   int64         `json:"tail_cut_bytes"` // that came before those
	Tail      *string       `json:"tail_text,omitempty"`
	Why       *whyView      `json:"why"`
	Evidence  []string      `json:"evidence"` // for an operator who asks for one req_id
}

func (s *Server) survivorsView(x observe.Survivors, now time.Time, who class) survivorsView {
	v := survivorsView{
		execView: s.exec(x.Exec, who), Since: when(x.Since), AgeMS: ms(now.Sub(x.Since)), Processes: viewProcesses(x.Processes),
		TailBytes: len(x.Tail), TailCut: x.TailCut, Evidence: []string{},
	}
	if who == operator {
		v.Tail = some(strings.ToValidUTF8(string(x.Tail), "\ufffd"))
	}
	return v
}

func (s *Server) listSurvivors(w http.ResponseWriter, r *http.Request) {
	if no := paramsOf(r).done(); no != nil {
		refuse(w, r, *no)
		return
	}
	list := s.survivors(r.Context(), "", askerOf(r).class)
	answer(w, r, http.StatusOK, list, list.text)
}

// showSurvivors is about one req_id, with the last output.
func (s *Server) showSurvivors(w http.ResponseWriter, r *http.Request) {
	id, no := reqIDOf(r)
	if no == nil {
		no = paramsOf(r).done()
	}
	if no != nil {
		refuse(w, r, *no)
		return
	}
	list := s.survivors(r.Context(), id, askerOf(r).class)
	if len(list.Survivors) == 0 {
		refuse(w, r, refusal{kind: noExec, detail: "req_id " + id + " has left nothing running", hint: "see /admin/survivors", reqID: id})
		return
	}
	answer(w, r, http.StatusOK, list, func(t *table) {
		list.text(t)
		for _, x := range list.Survivors {
			t.line("")
			t.line("req_id %s: %s", x.ReqID, x.Why.Sentence)
			for _, line := range x.Evidence {
				t.line("  %s", line)
			}
			switch {
			case x.Tail == nil:
				t.line("its last output is shown to operators only")
				continue
			case x.TailBytes == 0:
				t.line("it has written nothing since")
				continue
			}
			t.line("last output of req_id %s, %d bytes, %d before those:", x.ReqID, x.TailBytes, x.TailCut)
			for line := range strings.SplitSeq(strings.TrimSuffix(*x.Tail, "\n"), "\n") {
				t.line("  %s", quoted(line, 200))
			}
		}
	})
}

// survivors lists those of one req_id, or of all. Who asks for one gets its files
// looked at too.
func (s *Server) survivors(ctx context.Context, id string, who class) survivorList {
	const lookMost = 3 * time.Second
	ctx, cancel := context.WithTimeout(ctx, lookMost)
	defer cancel()
	now := time.Now()
	list := survivorList{head: s.head(now), Survivors: []survivorsView{}}
	var found []observe.Survivors
	var seqs []uint64
	for _, x := range s.worker.Survivors() {
		if id == "" || x.Exec.ID == sandboxID(id) {
			found, seqs = append(found, x), append(seqs, x.Exec.Seq)
		}
	}
	var seen map[uint64]observe.Inspection
	if who == operator && len(seqs) > 0 {
		seen = s.worker.Inspect(ctx, seqs, id != "")
	}
	in := situation{now: now, show: s.options.Preview}
	for _, x := range found {
		v := s.survivorsView(x, now, who)
		reason := in.survivors(x, inspectionOf(seen, x.Exec.Seq))
		v.Why = &whyView{Kind: reason.kind, Sentence: reason.sentence}
		if id != "" {
			v.Evidence = append(v.Evidence, reason.evidence...)
		}
		list.Survivors = append(list.Survivors, v)
	}
	return list
}

func (l survivorList) text(t *table) {
	if len(l.Survivors) == 0 {
		t.line("no command has left anything running")
		return
	}
	t.row("REQ_ID", "SINCE", "PROCESSES", "COMMAND")
	for _, x := range l.Survivors {
		var names []string
		for _, p := range x.Processes[:min(len(x.Processes), 4)] {
			names = append(names, fmt.Sprintf("%d %s", p.PID, p.Comm))
		}
		if more := len(x.Processes) - len(names); more > 0 {
			names = append(names, fmt.Sprintf("and %d more", more))
		}
		t.row(x.ReqID, age(millis(x.AgeMS)), strings.Join(names, ", "), x.commandText(60))
	}
	t.line("")
	t.line("last output: /admin/survivors/REQ_ID    end them: curl -X POST .../admin/survivors/REQ_ID/abort")
}
