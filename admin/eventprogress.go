package admin

import (
	"time"

	"execworker/daemon/observe"
)

// progressData is how far an exec has come.
type progressData struct {
	ReqID         string  `json:"req_id"`
	Etag          string  `json:"etag"`
	State         string  `json:"state"`
	StdoutBytes   int64   `json:"stdout_bytes"`
	StderrBytes   int64   `json:"stderr_bytes"`
	Chunks        int64   `json:"chunks"`
	LastOutputAt  *string `json:"last_output_at"`
	SendBlockedMS int64   `json:"send_blocked_ms"`
	SendWaiting   bool    `json:"send_waiting"`
}

// progress tells of the execs that have moved since it was told last. What has
// happened until then is told first, so that none moves after its end.
func (st *stream) progress() error {
	if !st.wants("exec.progress") {
		return nil
	}
	inflight := st.s.worker.Inflight()
	st.now = make(map[uint64]progressData, len(inflight))
	for _, x := range inflight {
		st.now[x.Exec.Seq] = progressOf(x)
	}
	if err := st.news(); err != nil || st.now == nil { // a snapshot says more
		return err
	}
	wrote := false
	for _, x := range inflight {
		now, still := st.now[x.Exec.Seq]
		was, known := st.sent[x.Exec.Seq]
		if !still || now.same(was) || !known && x.Chunks == 0 {
			continue
		}
		wrote = true
		if err := st.write(st.seq, time.Now(), "exec.progress", now); err != nil {
			return err
		}
	}
	st.sent, st.now = st.now, nil
	if wrote {
		return st.ctl.Flush()
	}
	return nil
}

func progressOf(x observe.Inflight) progressData {
	return progressData{
		ReqID: x.Exec.ID.ID, Etag: etagOf(x.Exec.Seq), State: string(x.State), StdoutBytes: x.StdoutBytes, StderrBytes: x.StderrBytes,
		Chunks: x.Chunks, LastOutputAt: when(x.LastOutputAt), SendBlockedMS: ms(x.SendBlocked), SendWaiting: x.SendWaiting,
	}
}

// same says that nothing has moved: the time alone is no news.
func (p progressData) same(was progressData) bool {
	return p.State == was.State && p.StdoutBytes == was.StdoutBytes && p.StderrBytes == was.StderrBytes && p.SendWaiting == was.SendWaiting
}
