package admin

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"execworker/daemon/observe"
)

const (
	answersWithin = 2 * time.Second  // the worker has to say how it is
	attemptMost   = time.Minute      // to attach; the worker itself gives up sooner
	overdueMost   = 30 * time.Second // of the next attempt
	// recovery is how long a relay may be lost before the worker is not ready:
	// most reconnects are over sooner.
	recovery = 10 * time.Second
)

// healthRoutes are livez and readyz. Anybody may ask, commands too.
func (s *Server) healthRoutes() []route {
	return []route{
		{http.MethodGet, "/livez", unknown, s.probe(liveChecks)},
		{http.MethodGet, "/readyz", unknown, s.probe(readyChecks)},
	}
}

// health asks the worker how it is, once at a time however many ask: one that
// hangs must not gather goroutines.
type health struct {
	started time.Time

	mu      sync.Mutex
	pending chan struct{} // closed when the answer is there; nil when nobody asks
	vitals  vitals
}

// vitals is what all checks are made from.
type vitals struct {
	status   observe.Status
	sessions []observe.Session
}

func (s *Server) vitals() (v vitals, ok bool) {
	h := &s.health
	h.mu.Lock()
	pending := h.pending
	if pending == nil {
		pending = make(chan struct{})
		h.pending = pending
		go func() { // ends when the worker answers
			v := vitals{status: s.worker.Status(), sessions: s.worker.Sessions()}
			h.mu.Lock()
			defer h.mu.Unlock()
			h.vitals, h.pending = v, nil
			close(pending)
		}()
	}
	h.mu.Unlock()
	timer := time.NewTimer(answersWithin)
	defer timer.Stop()
	select {
	case <-pending:
	case <-timer.C:
		return vitals{}, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.vitals, true
}

// checkView is one thing that has to be right.
type checkView struct {
	Name    string  `json:"name"`
	Healthy bool    `json:"healthy"`
	Status  string  `json:"status"` // ok, or what is wrong in a word or two
	Since   *string `json:"since"`
	Detail  string  `json:"detail"`
}

// healthView is the answer in JSON.
type healthView struct {
	Status  string      `json:"status"` // ok or not ready
	Healthy bool        `json:"healthy"`
	Checks  []checkView `json:"checks"`
}

func failed(name, status, detail string, since time.Time) checkView {
	return checkView{Name: name, Status: status, Detail: detail, Since: when(since)}
}

func passed(name, detail string, since time.Time) checkView {
	return checkView{Name: name, Healthy: true, Status: "ok", Detail: detail, Since: when(since)}
}

// liveChecks: the worker answers and tries to attach. A relay that is away is no
// reason to start it anew.
func liveChecks(s *Server, v vitals, now time.Time) []checkView {
	session := passed("session", "attached, or about to try", time.Time{})
	switch {
	case v.status.Draining || v.status.Attached:
	case len(v.sessions) == 0 && v.status.NextAttempt.IsZero() && now.Sub(s.health.started) > attemptMost:
		session = failed("session", "stuck", "no attempt to attach has begun", s.health.started)
	case !v.status.NextAttempt.IsZero() && now.Sub(v.status.NextAttempt) > overdueMost:
		session = failed("session", "overdue", "the next attempt to attach does not come", v.status.NextAttempt)
	case len(v.sessions) > 0:
		switch x := v.sessions[0]; {
		case x.EndedAt.IsZero() && x.HelloAt.IsZero() && now.Sub(x.DialedAt) > attemptMost:
			session = failed("session", "stuck", "an attempt to attach does not end", x.DialedAt)
		case !x.EndedAt.IsZero() && v.status.NextAttempt.IsZero() && now.Sub(x.EndedAt) > attemptMost:
			session = failed("session", "stuck", "no attempt follows the last one", x.EndedAt)
		}
	}
	return []checkView{session}
}

// readyChecks: an exec that is sent now would run.
func readyChecks(s *Server, v vitals, now time.Time) []checkView {
	return []checkView{s.relayCheck(v, now), queueCheck(v.status), admissionCheck(v.status), s.adminCheck()}
}

func (s *Server) relayCheck(v vitals, now time.Time) checkView {
	for _, x := range v.sessions {
		switch {
		case x.HelloAt.IsZero():
			continue
		case v.status.Attached, x.EndedAt.IsZero(): // status and sessions are not of the same moment
			return passed("relay", fmt.Sprintf("session %d", x.Number), x.HelloAt)
		case now.Sub(x.EndedAt) < recovery:
			return passed("relay", "lost a moment ago", x.EndedAt)
		}
		return failed("relay", "lost", "no relay is attached; see /admin/connections", x.EndedAt)
	}
	if v.status.Attached {
		return passed("relay", fmt.Sprintf("session %d", v.status.Session), time.Time{})
	}
	return failed("relay", "never attached", "no relay has been reached yet; see /admin/connections", s.health.started)
}

func queueCheck(st observe.Status) checkView {
	detail := fmt.Sprintf("%d of %d queued", st.Queued, st.QueueCap)
	if st.Queued >= st.QueueCap {
		return failed("queue", "full", detail, time.Time{})
	}
	return passed("queue", detail, time.Time{})
}

func admissionCheck(st observe.Status) checkView {
	switch {
	case st.Draining:
		return failed("admission", "draining", "the worker is stopping", time.Time{})
	case st.Closed:
		return failed("admission", "draining", "an operator has closed admission", time.Time{})
	}
	return passed("admission", "new execs are taken", time.Time{})
}

// adminCheck tells, and fails nothing: the socket serves, or nobody could ask.
func (s *Server) adminCheck() checkView {
	detail := strings.Join(append([]string{s.Socket()}, s.Addrs()...), " ")
	if problems := s.Problems(); len(problems) > 0 {
		detail += "; " + strings.Join(problems, "; ")
	}
	return passed("admin", strings.TrimSpace(detail), time.Time{})
}

func (s *Server) probe(checks func(*Server, vitals, time.Time) []checkView) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f, no := formatOf(r, formatText, formatJSON)
		v, answered := s.vitals()
		ledger := passed("ledger", "the worker answers", time.Time{})
		if !answered {
			ledger = failed("ledger", "no answer", fmt.Sprintf("the worker did not answer within %s", answersWithin), time.Time{})
		}
		all := append([]checkView{ledger}, checks(s, v, time.Now())...)
		p := paramsOf(r)
		verbose, excluded := p.flag("verbose"), p.many("exclude", names(all))
		if !answered {
			all = all[:1] // nothing is known of the others
		}
		if wrong := p.done(); no == nil {
			no = wrong
		}
		if no != nil {
			refuse(w, r, *no)
			return
		}
		all = slices.DeleteFunc(all, func(c checkView) bool { return slices.Contains(excluded, c.Name) })
		view := healthView{Status: "ok", Healthy: true, Checks: all}
		status := http.StatusOK
		if slices.ContainsFunc(all, func(c checkView) bool { return !c.Healthy }) {
			view.Status, view.Healthy, status = "not ready", false, http.StatusServiceUnavailable
		}
		if f == formatJSON {
			writeJSON(w, status, view)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		if verbose || !view.Healthy {
			for _, c := range all {
				fmt.Fprintln(w, c.line())
			}
		}
		fmt.Fprintln(w, view.Status)
	}
}

// line is a check for eyes: [+]relay ok, [-]queue full: 64 of 64 queued.
func (c checkView) line() string {
	sign := "[-]"
	if c.Healthy {
		sign = "[+]"
	}
	return strings.TrimSpace(fmt.Sprintf("%s%s %s: %s", sign, c.Name, c.Status, printable(c.Detail)))
}

func names(checks []checkView) []string {
	var all []string
	for _, c := range checks {
		all = append(all, c.Name)
	}
	return all
}

// flag is a parameter that is there or not: ?verbose, ?verbose=1.
func (p *params) flag(name string) bool {
	value, ok := p.one(name)
	switch {
	case !ok || value == "0" || value == "false":
		return false
	case value == "" || value == "1" || value == "true":
		return true
	}
	p.fail(name, fmt.Sprintf("%q is neither 1 nor 0", value), "use "+name+"=1")
	return false
}

// many is a parameter that may be there more than once, each one of words.
func (p *params) many(name string, words []string) []string {
	p.known = append(p.known, name)
	values := p.r.URL.Query()[name]
	for _, value := range values {
		if !slices.Contains(words, value) {
			p.fail(name, fmt.Sprintf("%q is none of them", value), "use any of "+strings.Join(words, ", "))
		}
	}
	return values
}
