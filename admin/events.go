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

// stream is one follower's answer.
type stream struct {
	s     *Server
	who   class
	sse   bool
	types []string // nil is all
	out   io.Writer
	ctl   *http.ResponseController
	seq   uint64 // that the reader knows

	sent map[uint64]progressData // by the execution's seq
	now  map[uint64]progressData // while progress is being told
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
	if !resumed {
		seq = me.from
	}

	st := &stream{s: s, who: askerOf(r).class, sse: f == formatSSE, types: types, out: w, ctl: http.NewResponseController(w), seq: seq, sent: map[uint64]progressData{}}
	w.Header().Set("Content-Type", map[bool]string{true: "text/event-stream", false: "application/x-ndjson"}[st.sse])
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead || st.ctl.Flush() != nil { // a reader knows at once that it follows
		return
	}
	if why, err := st.run(r, me, resumed, interval); err == nil {
		_ = st.say("keepalive", why) // it ends anyway
	}
}

// run writes until the reader is gone or too slow, which is an error, or the
// stream has to end for a reason that it returns.
func (st *stream) run(r *http.Request, me *follower, resumed bool, interval time.Duration) (why string, err error) {
	keepalive, stats, progress := time.NewTicker(keepaliveEvery), time.NewTicker(max(statsEvery, interval)), time.NewTicker(interval)
	defer keepalive.Stop()
	defer stats.Stop()
	defer progress.Stop()
	if !resumed && st.wants("snapshot") {
		if err := st.snapshot(); err != nil {
			return "", err
		}
	} else if err := st.news(); err != nil {
		return "", err
	}
	var gathered <-chan time.Time // runs while there was news a moment ago
	wake := me.wake
	for {
		var err error
		select {
		case <-r.Context().Done(): // with what a closing server still had to say
			return "the server closes this stream", st.news()
		case <-wake: // at once, and then not again for a while
			err = st.news()
			wake, gathered = nil, time.After(gatherFor)
		case <-gathered:
			wake, gathered = me.wake, nil
		case <-keepalive.C:
			if st.s.lesser(r, st.who) {
				return "this stream ends: who reads it may see less than at its begin", nil
			}
			err = st.say("keepalive", "")
		case <-stats.C:
			err = st.stats()
		case <-progress.C:
			err = st.progress()
		}
		if err != nil {
			return "", err
		}
	}
}

// lesser says that who asked as a class now asks as a lesser one: a connection
// can be handed on, and a stream would outlive every look at who holds it. One
// that cannot be looked at now is looked at the next time.
func (s *Server) lesser(r *http.Request, was class) bool {
	conn, _ := r.Context().Value(connKey{}).(*connection)
	who, no := s.ask(r, conn)
	switch {
	case no != nil && no.kind == tooMany:
		return false
	case no != nil:
		return true
	case who.class == descendant:
		s.denials.add(who.origin, r)
		return true
	}
	return was == operator && who.class != operator
}

// news writes what has happened since the reader's seq, or a snapshot if that is
// gone: also to a reader who wants no snapshots, who else would never know.
func (st *stream) news() error {
	items, ok := st.s.feed.after(st.seq)
	if !ok {
		return st.snapshot()
	}
	wrote := false
	for _, item := range items {
		st.seq = item.seq
		if ended, ok := item.event.(observe.Ended); ok {
			delete(st.sent, ended.Receipt.Exec.Seq)
			delete(st.now, ended.Receipt.Exec.Seq)
		}
		name, data := st.s.event(item.event, st.who)
		if name == "" || !st.wants(name) { // one without a name yet is no reason to stop
			continue
		}
		wrote = true
		if err := st.write(item.seq, item.at, name, data); err != nil {
			return err
		}
	}
	if wrote {
		return st.ctl.Flush()
	}
	return nil
}

func (st *stream) snapshot() error {
	now := time.Now()
	st.seq = st.s.feed.Seq() // before it is taken: rather twice than never
	data := snapshotData{Status: st.s.status(now, st.who), Inflight: []inflightView{}, Connection: st.s.connections(now, 1)}
	clear(st.sent)
	st.now = nil
	for _, x := range st.s.worker.Inflight() {
		data.Inflight = append(data.Inflight, st.s.inflight(x, now, st.who))
		st.sent[x.Exec.Seq] = progressOf(x)
	}
	return st.put(st.seq, now, "snapshot", data)
}

func (st *stream) stats() error {
	if !st.wants("stats") {
		return nil
	}
	v := st.s.worker.Status()
	return st.put(st.seq, time.Now(), "stats", statsData{
		Running: v.Running, Queued: v.Queued, Survivors: v.Survivors, Connection: relayState(v), Totals: totals(v),
	})
}

// say writes what is no event, whatever types are wanted: a comment where there
// are comments.
func (st *stream) say(name, text string) error {
	if !st.sse {
		return st.put(st.seq, time.Now(), name, map[string]string{"text": text})
	}
	_ = st.ctl.SetWriteDeadline(time.Now().Add(streamWrite))
	if _, err := fmt.Fprintf(st.out, ": %s %s\n\n", name, text); err != nil {
		return err
	}
	return st.ctl.Flush()
}

func (st *stream) wants(name string) bool { return st.types == nil || slices.Contains(st.types, name) }

// put writes one event at once.
func (st *stream) put(seq uint64, at time.Time, name string, data any) error {
	if err := st.write(seq, at, name, data); err != nil {
		return err
	}
	return st.ctl.Flush()
}

func (st *stream) write(seq uint64, at time.Time, name string, data any) error {
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
