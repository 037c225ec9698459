package admin

import (
	"fmt"
	"net/http"
	"time"

	"execworker/daemon/observe"
)

// connectionList is the answer to GET /connections.
type connectionList struct {
	head
	State         string        `json:"state"` // attached, dialing, waiting
	Attempt       int           `json:"attempt"`
	NextAttemptAt *string       `json:"next_attempt_at"` // null unless it waits
	BackoffMS     int64         `json:"backoff_ms"`      // left of the wait
	Current       *sessionView  `json:"current"`         // the attempt or session of now
	History       []sessionView `json:"history"`         // newest first
}

// sessionView is one attempt to attach, and what became of it.
type sessionView struct {
	Epoch           uint64  `json:"epoch"`
	Target          string  `json:"target"`
	TLS             bool    `json:"tls"`
	Attempt         int     `json:"attempt"`
	BackoffMS       int64   `json:"backoff_ms"` // waited before it
	DialedAt        *string `json:"dialed_at"`
	ConnectedAt     *string `json:"connected_at"`
	HelloAt         *string `json:"hello_at"`
	LastRecvAt      *string `json:"last_recv_at"`
	LastHeartbeatAt *string `json:"last_heartbeat_at"`
	EndedAt         *string `json:"ended_at"`
	DurationMS      int64   `json:"duration_ms"`
	EndReason       *string `json:"end_reason"`
	GRPCCode        *string `json:"grpc_code"`
	Detail          *string `json:"detail"`
	ExecsCancelled  int     `json:"execs_cancelled"`
	FramesIn        int64   `json:"frames_in"`
	FramesOut       int64   `json:"frames_out"`
	BytesIn         int64   `json:"bytes_in"`
	BytesOut        int64   `json:"bytes_out"`
	Healthy         bool    `json:"healthy"` // the back-off begins anew after it
}

func (s *Server) session(x observe.Session, now time.Time) sessionView {
	v := sessionView{
		Epoch: x.Number, Target: s.options.Preview(x.Target), TLS: x.TLS, Attempt: x.Attempt, BackoffMS: ms(x.Backoff),
		DialedAt: when(x.DialedAt), ConnectedAt: when(x.ConnectedAt), HelloAt: when(x.HelloAt), LastRecvAt: when(x.LastRecvAt),
		LastHeartbeatAt: when(x.HeartbeatAt), EndedAt: when(x.EndedAt), DurationMS: ms(orNow(x.EndedAt, now).Sub(x.DialedAt)),
		EndReason: optional(x.EndReason), GRPCCode: optional(x.Code), ExecsCancelled: x.ExecsLost,
		FramesIn: x.FramesIn, FramesOut: x.FramesOut, BytesIn: x.BytesIn, BytesOut: x.BytesOut, Healthy: x.Healthy,
	}
	if x.Detail != "" {
		v.Detail = some(s.options.Preview(x.Detail))
	}
	return v
}

func (s *Server) listConnections(w http.ResponseWriter, r *http.Request) {
	p := paramsOf(r)
	limit := p.count("limit", mostListed)
	if no := p.done(); no != nil {
		refuse(w, r, *no)
		return
	}
	list := s.connections(time.Now(), limit)
	answer(w, r, http.StatusOK, list, list.text)
}

func (s *Server) connections(now time.Time, limit int) connectionList {
	head, status := s.head(now), s.worker.Status()
	list := connectionList{head: head, State: relayState(status), NextAttemptAt: when(status.NextAttempt), History: []sessionView{}}
	for _, x := range s.worker.Sessions() {
		v := s.session(x, now)
		switch {
		case x.EndedAt.IsZero():
			list.Current, list.Attempt = &v, x.Attempt
		case len(list.History) < limit:
			list.History = append(list.History, v)
		}
	}
	if list.State == "waiting" {
		list.BackoffMS = max(0, ms(status.NextAttempt.Sub(now)))
		if len(list.History) > 0 {
			list.Attempt = list.History[0].Attempt + 1
		}
	}
	return list
}

func (l connectionList) text(t *table) {
	now := *l.Now
	switch c := l.Current; {
	case c != nil && c.HelloAt != nil:
		t.line("attached to %s for %s (session %d, attempt %d), %d frames in, %d out", ascii(c.Target), since(now, *c.HelloAt), c.Epoch, c.Attempt, c.FramesIn, c.FramesOut)
	case c != nil:
		t.line("dialing %s for %s (session %d, attempt %d)", ascii(c.Target), age(millis(c.DurationMS)), c.Epoch, c.Attempt)
	case l.State != "waiting":
		t.line("no session yet: %s", l.State)
	default:
		t.line("waiting for %s, then attempt %d", age(millis(l.BackoffMS)), l.Attempt)
	}
	if len(l.History) == 0 {
		t.line("nothing came before it")
		return
	}
	t.row("SESSION", "DIALED", "LASTED", "WAITED", "TRY", "EXECS_LOST", "END", "CODE", "DETAIL")
	for _, x := range l.History {
		t.row(x.Epoch, since(now, *x.DialedAt)+" ago", age(millis(x.DurationMS)), age(millis(x.BackoffMS)), x.Attempt, x.ExecsCancelled,
			word(x.EndReason), word(x.GRPCCode), detailText(x.Detail))
	}
}

func word(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func detailText(s *string) string {
	if s == nil {
		return ""
	}
	return quoted(*s, 100)
}

// since is how long ago a time of a view is.
func since(now, then string) string {
	a, err := time.Parse(time.RFC3339, now)
	b, err2 := time.Parse(time.RFC3339, then)
	if err != nil || err2 != nil {
		return fmt.Sprint(then)
	}
	return age(a.Sub(b))
}
