package admin

import (
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"execworker/daemon/observe"
)

const (
	reasonMost = 120 // runes
	waitMost   = time.Minute
)

// actRoutes are what changes something.
func (s *Server) actRoutes() []route {
	return []route{
		{http.MethodPost, "/inflight/{req_id}/abort", operator, s.abort},
		{http.MethodPost, "/survivors/{req_id}/abort", operator, s.abortSurvivors},
		{http.MethodGet, "/loglevel", operator, s.showLevel},
		{http.MethodPut, "/loglevel", operator, s.setLevel},
		{http.MethodPost, "/drain", operator, s.closeAdmission},
		{http.MethodDelete, "/drain", operator, s.openAdmission},
	}
}

// abortAnswer is the answer to an abort that was accepted.
type abortAnswer struct {
	ReqID      string       `json:"req_id"`
	Etag       string       `json:"etag"`
	State      string       `json:"state"`
	AcceptedAt *string      `json:"accepted_at"`
	Effect     string       `json:"effect"`   // killed or dequeued
	Terminal   *receiptView `json:"terminal"` // null when it was not waited for, or not long enough
}

// reasonBody is what may be in the body of a POST.
type reasonBody struct {
	Reason string `json:"reason"`
}

func (s *Server) abort(w http.ResponseWriter, r *http.Request) {
	id, body, seq, wait, no := s.abortRequest(w, r)
	if no != nil {
		refuse(w, r, *no)
		return
	}
	// Before the abort, so that its end cannot be missed.
	me := s.feed.follow(false)
	defer s.feed.leave(me)
	x, ok := s.inFlight(id, seq)
	if !ok {
		refuse(w, r, s.cannotAbort(id, seq))
		return
	}
	switch result := s.worker.Abort(x.Exec.ID, x.Exec.Seq, observe.EndedByAdmin, body.Reason); result {
	case observe.AbortKilled, observe.AbortDequeued:
		a := abortAnswer{ReqID: id, Etag: etagOf(x.Exec.Seq), State: string(x.State), AcceptedAt: when(time.Now()), Effect: string(result)}
		status := http.StatusAccepted
		if wait > 0 {
			if ended := s.awaitEnd(w, r, me, x.Exec.Seq, wait); ended != nil {
				a.Terminal, status = some(s.receipt(*ended, operator)), http.StatusOK
			}
		}
		answer(w, r, status, a, a.text)
	default: // it has ended since
		refuse(w, r, s.cannotAbort(id, x.Exec.Seq))
	}
}

func (a abortAnswer) text(t *table) {
	if a.Terminal != nil {
		t.line("req_id %s: %s", a.ReqID, a.Terminal.Sentence)
		return
	}
	t.line("req_id %s was %s and is being stopped (%s)", a.ReqID, a.State, a.Effect)
}

// abortRequest reads what an abort has to say.
func (s *Server) abortRequest(w http.ResponseWriter, r *http.Request) (id string, body reasonBody, seq uint64, wait time.Duration, no *refusal) {
	if id, no = reqIDOf(r); no != nil {
		return
	}
	p := paramsOf(r)
	if wait = p.span("wait"); wait > waitMost {
		p.fail("wait", wait.String()+" is too long", "use at most "+waitMost.String())
	}
	if no = p.done(); no != nil {
		return
	}
	if seq, no = ifMatch(r); no != nil {
		return
	}
	no = readBody(w, r, &body)
	if no == nil && utf8.RuneCountInString(body.Reason) > reasonMost {
		no = &refusal{kind: badBody, detail: fmt.Sprintf("reason: it has more than %d characters", reasonMost), hint: "use a shorter one"}
	}
	return
}

// ifMatch is the execution that is meant; 0 when whichever has the req_id is. A
// page must say: what it shows may be over, and the req_id somebody else's.
func ifMatch(r *http.Request) (seq uint64, no *refusal) {
	given := strings.TrimSpace(r.Header.Get("If-Match"))
	switch {
	case given == "" && (r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != ""):
		return 0, &refusal{kind: needsIfMatch, detail: "If-Match: it is missing", hint: "send the etag of the exec"}
	case given == "" || given == "*":
		return 0, nil
	}
	seq, err := parseEtag(given)
	if err != nil {
		return 0, &refusal{kind: badParameter, detail: "If-Match: " + ascii(given) + " is no etag", hint: "send the etag as the list shows it"}
	}
	return seq, nil
}

// inFlight finds what has an id, and the number if that is not 0: an heir rather
// than the dying run it waits for.
func (s *Server) inFlight(id string, seq uint64) (found observe.Inflight, ok bool) {
	for _, x := range s.worker.Inflight() {
		if x.Exec.ID == sandboxID(id) && (seq == 0 || x.Exec.Seq == seq) {
			found, ok = x, true // in the order they came: the last one counts
		}
	}
	return found, ok
}

func sandboxID(id string) observe.ID { return observe.ID{Source: observe.SourceSandbox, ID: id} }

// cannotAbort says why there is nothing to abort.
func (s *Server) cannotAbort(id string, seq uint64) refusal {
	if x, ok := s.inFlight(id, 0); ok {
		return refusal{
			kind: otherExec, detail: fmt.Sprintf("If-Match: req_id %s is the execution %s now", id, etagOf(x.Exec.Seq)),
			hint: "look at it again, and send its etag", reqID: id,
		}
	}
	receipts := s.receiptsOf(id)
	for _, r := range receipts {
		if seq != 0 && r.Exec.Seq != seq {
			continue
		}
		hint := "see /admin/execs/" + id
		if len(r.Survivors) > 0 {
			hint = "it left processes running: end them with POST /admin/survivors/" + id + "/abort"
		}
		return refusal{kind: alreadyFinished, detail: fmt.Sprintf("req_id %s: outcome %s, %s", id, r.Outcome, s.explainReceipt(r, operator)), hint: hint, reqID: id}
	}
	if len(receipts) > 0 {
		return refusal{
			kind: otherExec, detail: fmt.Sprintf("If-Match: req_id %s was the execution %s last, which has ended", id, etagOf(receipts[0].Exec.Seq)),
			hint: "see /admin/execs/" + id, reqID: id,
		}
	}
	// Dedup knows of an end a moment before there is a receipt, and may know of it
	// when the receipt is long gone.
	for _, c := range s.worker.Dedup().Entries {
		if c.ID == sandboxID(id) {
			return refusal{kind: alreadyFinished, detail: fmt.Sprintf("req_id %s: outcome %s", id, c.Outcome), hint: "see /admin/cache", reqID: id}
		}
	}
	return refusal{kind: noExec, detail: "req_id " + id + " never came, or is long gone", hint: "see /admin/inflight", reqID: id}
}

// survivorsAnswer is the answer to the abort of what was left running.
type survivorsAnswer struct {
	ReqID string   `json:"req_id"`
	Etags []string `json:"etags"` // of the executions whose survivors are being swept
	Gone  bool     `json:"gone"`  // false when it was not waited for, or not long enough
}

func (s *Server) abortSurvivors(w http.ResponseWriter, r *http.Request) {
	id, _, seq, wait, no := s.abortRequest(w, r)
	if no != nil {
		refuse(w, r, *no)
		return
	}
	me := s.feed.follow(false)
	defer s.feed.leave(me)
	a := survivorsAnswer{ReqID: id, Etags: []string{}}
	swept := map[uint64]bool{}
	others := 0
	for _, x := range s.worker.Survivors() {
		switch {
		case x.Exec.ID != sandboxID(id):
		case seq != 0 && seq != x.Exec.Seq:
			others++
		case s.worker.AbortSurvivors(x.Exec.Seq):
			swept[x.Exec.Seq] = true
			a.Etags = append(a.Etags, etagOf(x.Exec.Seq))
		}
	}
	switch {
	case len(swept) == 0 && others > 0:
		refuse(w, r, refusal{kind: otherExec, detail: "If-Match: another execution of req_id " + id + " left what runs", hint: "see /admin/survivors/" + id, reqID: id})
		return
	case len(swept) == 0:
		refuse(w, r, refusal{kind: noExec, detail: "req_id " + id + " has left nothing running", hint: "see /admin/survivors", reqID: id})
		return
	}
	status := http.StatusAccepted
	if wait > 0 {
		a.Gone = s.awaitGone(w, r, me, swept, wait)
	}
	if a.Gone {
		status = http.StatusOK
	}
	answer(w, r, status, a, func(t *table) {
		if a.Gone {
			t.line("nothing that req_id %s left is running any more", id)
			return
		}
		t.line("what req_id %s left running is being ended", id)
	})
}
