package admin

import (
	"execworker/daemon/observe"
)

// receiptView is the one record of how an exec ended and what it cost.
type receiptView struct {
	execView
	Outcome      string          `json:"outcome"`
	ExitCode     *int            `json:"exit_code"` // null when main had none
	Signal       *string         `json:"signal"`
	EndedBy      string          `json:"ended_by"`
	Reason       string          `json:"reason"` // of an abort
	ErrorType    *string         `json:"error_type"`
	Error        *string         `json:"error"`
	OOM          *oomView        `json:"oom"`
	Collided     bool            `json:"collided"`
	PID          *int            `json:"pid"`
	StartedAt    *string         `json:"started_at"`
	EndedAt      *string         `json:"ended_at"`
	TookMS       int64           `json:"took_ms"` // received to ended
	CPUUserMS    int64           `json:"cpu_user_ms"`
	CPUSystemMS  int64           `json:"cpu_system_ms"`
	MaxRSSBytes  int64           `json:"max_rss_bytes"`
	IOReadBytes  int64           `json:"io_read_bytes"`
	IOWriteBytes int64           `json:"io_write_bytes"`
	StdoutBytes  int64           `json:"stdout_bytes"`
	StderrBytes  int64           `json:"stderr_bytes"`
	StdoutCut    int64           `json:"stdout_cut_bytes"`
	StderrCut    int64           `json:"stderr_cut_bytes"`
	StdoutHash   *string         `json:"stdout_sha256"` // null unless EXECWORKER_OUTPUT_HASH is set
	StderrHash   *string         `json:"stderr_sha256"`
	Truncated    bool            `json:"truncated"`
	Chunks       int64           `json:"chunks"`
	PipeHeld     bool            `json:"pipe_held"`
	Phases       phasesView      `json:"phases"`
	Survivors    []survivorView  `json:"survivors"`
	SurvivorsCut bool            `json:"survivors_swept"` // there were too many, or none are kept
	Containment  containmentView `json:"containment"`
	TraceKept    *bool           `json:"trace_kept"`
	Sentence     string          `json:"sentence"`
}

type oomView struct {
	Evidence   string `json:"evidence"`
	Confidence string `json:"confidence"`
}

type phasesView struct {
	QueueMS       int64 `json:"queue_ms"`
	SpawnMS       int64 `json:"spawn_ms"`
	FirstByteMS   int64 `json:"first_byte_ms"`
	RunMS         int64 `json:"run_ms"`
	DrainMS       int64 `json:"drain_ms"`
	SendBlockedMS int64 `json:"send_blocked_ms"`
	KillMS        int64 `json:"kill_ms"`
}

type containmentView struct {
	Level  *string       `json:"level"` // null when nothing was swept
	Rounds int           `json:"rounds"`
	Reaped int           `json:"reaped"`
	Left   []processView `json:"left"`
}

// survivorView is a process that was still there when its command had ended.
type survivorView struct {
	PID   int     `json:"pid"`
	Name  string  `json:"name"`
	Start *string `json:"start"`
}

// blockBytes is the unit of block I/O in getrusage(2) on Linux: sectors of 512
// bytes (task_io_accounting, kernel/sys.c).
const blockBytes = 512

func (s *Server) receipt(r observe.Receipt, who class) receiptView {
	v := receiptView{
		execView:     s.exec(r.Exec, who),
		Outcome:      string(r.Outcome),
		Signal:       optional(r.Signal),
		EndedBy:      string(r.EndedBy),
		Reason:       s.reason(r.Reason, who),
		Collided:     r.Collided,
		StartedAt:    when(r.StartedAt),
		EndedAt:      when(r.EndedAt),
		TookMS:       ms(r.EndedAt.Sub(r.Exec.ReceivedAt)),
		CPUUserMS:    ms(r.UserCPU),
		CPUSystemMS:  ms(r.SystemCPU),
		MaxRSSBytes:  r.MaxRSSBytes,
		IOReadBytes:  r.ReadBlocks * blockBytes,
		IOWriteBytes: r.WriteBlocks * blockBytes,
		StdoutBytes:  r.StdoutBytes,
		StderrBytes:  r.StderrBytes,
		StdoutCut:    r.StdoutCut,
		StderrCut:    r.StderrCut,
		StdoutHash:   optional(r.StdoutHash),
		StderrHash:   optional(r.StderrHash),
		Truncated:    r.StdoutCut > 0 || r.StderrCut > 0,
		Chunks:       r.Chunks,
		PipeHeld:     r.PipeHeld,
		SurvivorsCut: r.SurvivorsCut,
		Survivors:    []survivorView{},
		Sentence:     s.explainReceipt(r, who),
		Phases: phasesView{
			QueueMS: ms(r.Phases.Queue), SpawnMS: ms(r.Phases.Spawn), FirstByteMS: ms(r.Phases.FirstByte), RunMS: ms(r.Phases.Run),
			DrainMS: ms(r.Phases.Drain), SendBlockedMS: ms(r.Phases.SendBlocked), KillMS: ms(r.Phases.Kill),
		},
		Containment: containmentView{
			Level: optional(r.Containment.Level), Rounds: r.Containment.Rounds, Reaped: r.Containment.Reaped,
			Left: viewProcesses(r.Containment.Left),
		},
	}
	if r.PID > 0 {
		v.PID = &r.PID
		if r.Signal == "" && r.ExitCode >= 0 {
			v.ExitCode = &r.ExitCode
		}
	}
	if r.Error != "" {
		v.ErrorType = some(string(r.Outcome))
		if who == operator {
			v.Error = some(s.options.Preview(r.Error))
		}
	}
	if r.Exec.Trace.ID != "" && s.options.TraceKept != nil {
		v.TraceKept = some(s.options.TraceKept(r))
	}
	if r.OOM != nil {
		v.OOM = &oomView{Evidence: r.OOM.Evidence, Confidence: r.OOM.Confidence}
	}
	for _, p := range r.Survivors {
		v.Survivors = append(v.Survivors, survivorView{PID: p.PID, Name: ascii(p.Name), Start: when(p.StartedAt)})
	}
	return v
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
