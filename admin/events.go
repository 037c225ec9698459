package admin

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"execworker/daemon/observe"
)

const (
	keepaliveEvery = 15 * time.Second
	statsEvery     = time.Second
	progressEvery  = 500 * time.Millisecond
	// gatherFor is how long news that comes in a burst is gathered: who watches
	// sees no difference, and a hundred execs a second cost ten writes.
	gatherFor = 100 * time.Millisecond
	// streamWrite is what a reader gets to take what is written, before it is dropped.
	streamWrite = 10 * time.Second
)

// feedRoutes are the feed's.
func (s *Server) feedRoutes() []route {
	return []route{{http.MethodGet, "/events", unknown, s.follow}}
}

// eventView is a line of the stream. SSE has the same fields in its own way.
type eventView struct {
	Seq  uint64  `json:"seq"`
	At   *string `json:"at"`
	Type string  `json:"type"`
	Data any     `json:"data"`
}

// snapshotData is what a stream begins with: everything that later events change.
type snapshotData struct {
	Status     statusView     `json:"status"`
	Inflight   []inflightView `json:"inflight"`
	Connection connectionList `json:"connection"`
}

// statsData is the worker once a second.
type statsData struct {
	Running    int        `json:"running"`
	Queued     int        `json:"queued"`
	Survivors  int        `json:"survivors"`
	Connection string     `json:"connection"`
	Totals     totalsView `json:"totals"`
}

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

// stream is one follower's answer.
type stream struct {
	s     *Server
	who   class
	sse   bool
	types []string // nil is all
	out   io.Writer
	ctl   *http.ResponseController
	seq   uint64 // that the reader knows
	sent  map[uint64]progressData
}

func (s *Server) follow(w http.ResponseWriter, r *http.Request) {
	p := paramsOf(r)
	types, interval := p.words("types", eventTypes), p.between("interval", progressEvery, time.Minute)
	seq, resumed := p.number("since")
	if last := r.Header.Get("Last-Event-ID"); last != "" && !resumed {
		// A page that was left open sends what it has; nonsense just gets a snapshot.
		n, err := strconv.ParseUint(last, 10, 64)
		seq, resumed = n, err == nil
	}
	f, no := formatOf(r, formatNDJSON, formatSSE)
	if wrong := p.done(); wrong != nil {
		no = wrong
	}
	if no != nil {
		refuse(w, r, *no)
		return
	}
	me := s.feed.follow(true)
	if me == nil {
		w.Header().Set("Retry-After", "5")
		refuse(w, r, refusal{kind: tooMany, detail: fmt.Sprintf("%d follow already", followersMost), hint: "close another page or watch, or ask again later"})
		return
	}
	defer s.feed.leave(me)

	st := &stream{s: s, who: askerOf(r).class, sse: f == formatSSE, types: types, out: w, ctl: http.NewResponseController(w), seq: seq, sent: map[uint64]progressData{}}
	w.Header().Set("Content-Type", map[bool]string{true: "text/event-stream", false: "application/x-ndjson"}[st.sse])
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	err := st.run(r, me, resumed, interval)
	if err == nil {
		_ = st.say("keepalive", "the server closes this stream") // it ends anyway
	}
}

// run writes until the reader is gone, too slow, or the server closes, which is
// no error.
func (st *stream) run(r *http.Request, me *follower, resumed bool, interval time.Duration) error {
	keepalive, stats, progress := time.NewTicker(keepaliveEvery), time.NewTicker(max(statsEvery, interval)), time.NewTicker(interval)
	defer keepalive.Stop()
	defer stats.Stop()
	defer progress.Stop()
	if !resumed {
		if err := st.snapshot(); err != nil {
			return err
		}
	} else if err := st.news(); err != nil {
		return err
	}
	var gathered <-chan time.Time // runs while there was news a moment ago
	wake := me.wake
	for {
		var err error
		select {
		case <-r.Context().Done():
			return st.news() // what a closing server still had to say
		case <-wake: // at once, and then not again for a while
			err = st.news()
			wake, gathered = nil, time.After(gatherFor)
		case <-gathered:
			wake, gathered = me.wake, nil
		case <-keepalive.C:
			err = st.say("keepalive", "")
		case <-stats.C:
			err = st.stats()
		case <-progress.C:
			err = st.progress()
		}
		if err != nil {
			return err
		}
	}
}

// news writes what has happened since the reader's seq, or a snapshot if that is
// gone.
func (st *stream) news() error {
	items, ok := st.s.feed.after(st.seq)
	if !ok {
		return st.snapshot()
	}
	for _, item := range items {
		name, data := st.s.event(item.event, st.who)
		if name == "" { // an event without a name yet is no reason to stop
			continue
		}
		if ended, ok := item.event.(observe.Ended); ok {
			delete(st.sent, ended.Receipt.Exec.Seq)
		}
		if err := st.write(item.seq, item.at, name, data); err != nil {
			return err
		}
		st.seq = item.seq
	}
	if n := len(items); n > 0 {
		st.seq = items[n-1].seq
		return st.flush()
	}
	return nil
}

func (st *stream) snapshot() error {
	now := time.Now()
	st.seq = st.s.feed.Seq() // before it is taken: rather twice than never
	data := snapshotData{Status: st.s.status(now, st.who), Inflight: []inflightView{}, Connection: st.s.connections(now, 1)}
	clear(st.sent)
	for _, x := range st.s.worker.Inflight() {
		data.Inflight = append(data.Inflight, st.s.inflight(x, now, st.who))
		st.sent[x.Exec.Seq] = progressOf(x)
	}
	return st.tell("snapshot", data)
}

func (st *stream) stats() error {
	v := st.s.worker.Status()
	return st.tell("stats", statsData{
		Running: v.Running, Queued: v.Queued, Survivors: v.Survivors, Connection: relayState(v), Totals: totals(v),
	})
}

// progress tells of the execs that have moved since it was told last.
func (st *stream) progress() error {
	if st.types != nil && !slices.Contains(st.types, "exec.progress") {
		return nil
	}
	for _, x := range st.s.worker.Inflight() {
		now := progressOf(x)
		was, known := st.sent[x.Exec.Seq]
		st.sent[x.Exec.Seq] = now
		if now.same(was) || !known && x.Chunks == 0 {
			continue
		}
		if err := st.write(st.seq, time.Now(), "exec.progress", now); err != nil {
			return err
		}
	}
	return st.flush()
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

// tell writes one event that is made for this stream, at once.
func (st *stream) tell(name string, data any) error {
	if err := st.write(st.seq, time.Now(), name, data); err != nil {
		return err
	}
	return st.flush()
}

// say writes what is no event: a comment where there are comments.
func (st *stream) say(name, text string) error {
	if !st.sse {
		return st.tell(name, map[string]string{"text": text})
	}
	_ = st.ctl.SetWriteDeadline(time.Now().Add(streamWrite))
	if _, err := fmt.Fprintf(st.out, ": %s %s\n\n", name, text); err != nil {
		return err
	}
	return st.flush()
}

func (st *stream) write(seq uint64, at time.Time, name string, data any) error {
	if st.types != nil && !slices.Contains(st.types, name) {
		return nil
	}
	_ = st.ctl.SetWriteDeadline(time.Now().Add(streamWrite)) // an old one would end it
	line, err := encode(eventView{Seq: seq, At: when(at), Type: name, Data: data}, "")
	if err != nil {
		return err
	}
	if st.sse {
		_, err = fmt.Fprintf(st.out, "id: %d\nevent: %s\ndata: %s\n", seq, name, line)
	} else {
		_, err = st.out.Write(line)
	}
	return err
}

func (st *stream) flush() error { return st.ctl.Flush() }
