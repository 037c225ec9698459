package admin

import (
	"strconv"
	"time"

	"execworker/daemon/observe"
)

// execView is what is shown of every exec, in flight or ended. The text of the
// command and its workspace are there for an operator only: for others the keys
// are left out, so that a null cannot be taken for "none".
type execView struct {
	ReqID        string  `json:"req_id"`
	Source       string  `json:"source"`
	Etag         string  `json:"etag"` // the execution's number; for If-Match
	ReceivedAt   *string `json:"received_at"`
	Streaming    bool    `json:"streaming"`
	TimeoutS     int64   `json:"timeout_s"` // 0 is none
	Command      *string `json:"command,omitempty"`
	WorkspaceKey *string `json:"workspace_key,omitempty"`
	CommandHash  string  `json:"command_sha256"` // its first 12 hex digits
	CommandName  string  `json:"command_name"`
	CommandBytes int     `json:"command_bytes"`
	StdinBytes   int     `json:"stdin_bytes"`
	ConnEpoch    uint64  `json:"conn_epoch"` // the number of its session
	TraceID      *string `json:"trace_id"`
	SpanID       *string `json:"span_id"`
	Sampled      *bool   `json:"sampled"`
}

// exec makes the view that an asker of class who may see.
func (s *Server) exec(x observe.Exec, who class) execView {
	v := execView{
		ReqID:        x.ID.ID,
		Source:       x.ID.Source,
		Etag:         etagOf(x.Seq),
		ReceivedAt:   when(x.ReceivedAt),
		Streaming:    x.Streaming,
		TimeoutS:     int64(x.Timeout / time.Second),
		CommandHash:  short(x.CommandHash),
		CommandName:  commandName(x.Command),
		CommandBytes: x.CommandBytes,
		StdinBytes:   x.StdinBytes,
		ConnEpoch:    x.Session,
	}
	if x.Trace.ID != "" {
		v.TraceID, v.SpanID, v.Sampled = some(x.Trace.ID), some(x.Trace.SpanID), some(x.Trace.Sampled)
	}
	if who == operator {
		command := s.options.Preview(x.Command)
		key := s.options.Preview(x.WorkspaceKey)
		v.Command, v.WorkspaceKey = &command, &key
	}
	return v
}

func etagOf(seq uint64) string { return strconv.FormatUint(seq, 10) }

// short is enough of a hash to tell two apart.
func short(hash string) string { return hash[:min(len(hash), 12)] }

// inflightView is an exec that has no terminal frame yet.
type inflightView struct {
	execView
	State         string     `json:"state"`
	StartedAt     *string    `json:"started_at"`
	DeadlineAt    *string    `json:"deadline_at"`
	AgeMS         int64      `json:"age_ms"`
	QueueMS       int64      `json:"queue_ms"` // so far, if it still waits
	RunMS         *int64     `json:"run_ms"`
	IdleMS        *int64     `json:"idle_ms"` // since its last output, or its start
	QueuePosition *int       `json:"queue_position"`
	PID           *int       `json:"pid"`
	PGID          *int       `json:"pgid"`
	StdoutBytes   int64      `json:"stdout_bytes"`
	StderrBytes   int64      `json:"stderr_bytes"`
	Chunks        int64      `json:"chunks"`
	FirstByteMS   *int64     `json:"first_byte_ms"`
	LastOutputAt  *string    `json:"last_output_at"`
	SendBlockedMS int64      `json:"send_blocked_ms"`
	SendWaiting   bool       `json:"send_waiting"`
	Truncated     bool       `json:"truncated"`
	Abort         *abortView `json:"abort"`
	Why           *whyView   `json:"why"`
}

// abortView is the wish to stop an exec.
type abortView struct {
	RequestedAt *string `json:"requested_at"`
	Source      string  `json:"source"`
	Reason      string  `json:"reason"`
}

// whyView is why an exec has not ended.
type whyView struct {
	Kind     string `json:"kind"`
	Sentence string `json:"sentence"`
}

func (s *Server) inflight(x observe.Inflight, now time.Time, who class) inflightView {
	v := inflightView{
		execView:      s.exec(x.Exec, who),
		State:         string(x.State),
		StartedAt:     when(x.StartedAt),
		AgeMS:         ms(now.Sub(x.Exec.ReceivedAt)),
		QueueMS:       ms(orNow(x.DequeuedAt, now).Sub(x.Exec.ReceivedAt)),
		StdoutBytes:   x.StdoutBytes,
		StderrBytes:   x.StderrBytes,
		Chunks:        x.Chunks,
		LastOutputAt:  when(x.LastOutputAt),
		SendBlockedMS: ms(x.SendBlocked),
		SendWaiting:   x.SendWaiting,
		Truncated:     !x.Exec.Streaming && x.StdoutBytes > bufferedMost,
	}
	if x.QueuePosition > 0 {
		v.QueuePosition = &x.QueuePosition
	}
	if x.PID > 0 {
		v.PID, v.PGID = &x.PID, &x.PID // main leads its group
	}
	if !x.StartedAt.IsZero() {
		v.RunMS = some(ms(orNow(x.MainEndedAt, now).Sub(x.StartedAt)))
		v.IdleMS = some(ms(idle(x, now)))
		if x.Exec.Timeout > 0 {
			v.DeadlineAt = when(x.StartedAt.Add(x.Exec.Timeout))
		}
	}
	if !x.LastOutputAt.IsZero() {
		v.FirstByteMS = some(ms(x.FirstByte))
	}
	if a := x.Abort; a != nil {
		v.Abort = &abortView{RequestedAt: when(a.At), Source: string(a.By), Reason: s.reason(a.Reason, who)}
	}
	return v
}

// bufferedMost is what a buffered exec may send of each stream, in bytes.
const bufferedMost = 8 << 20

// idle is how long nothing has come out of a running exec.
func idle(x observe.Inflight, now time.Time) time.Duration {
	if x.LastOutputAt.IsZero() {
		return now.Sub(x.StartedAt)
	}
	return now.Sub(x.LastOutputAt)
}

// reason is what an operator gave as one; only operators get to see it.
func (s *Server) reason(reason string, who class) string {
	if who != operator {
		return ""
	}
	return s.options.Preview(reason)
}

func orNow(t, now time.Time) time.Time {
	if t.IsZero() {
		return now
	}
	return t
}

func some[T any](v T) *T { return &v }

// processView is a process of some tree.
type processView struct {
	PID       int     `json:"pid"`
	PPID      int     `json:"ppid"`
	State     string  `json:"state"`
	Comm      string  `json:"comm"`
	WaitsIn   *string `json:"waits_in"` // kernel wait channel; null where it cannot be read
	StartedAt *string `json:"started_at"`
}

func viewProcess(p observe.Process) processView {
	v := processView{PID: p.PID, PPID: p.PPID, State: p.State, Comm: ascii(p.Name), StartedAt: when(p.StartedAt)}
	if p.WaitsIn != "" {
		v.WaitsIn = some(ascii(p.WaitsIn))
	}
	return v
}

func viewProcesses(all []observe.Process) []processView {
	views := make([]processView, 0, len(all))
	for _, p := range all {
		views = append(views, viewProcess(p))
	}
	return views
}
