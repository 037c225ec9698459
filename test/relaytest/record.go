package relaytest

import (
	"bytes"
	"slices"
	"time"

	sandboxv1 "execworker/proto/sandbox/v1"
)

// maxChunk is the most that a Chunk may carry.
const maxChunk = 32 << 10

// Frame is one frame about a req_id: exactly one of Chunk, End and Err is set.
type Frame struct {
	At    time.Time
	Chunk *sandboxv1.Chunk // its Data is nil after Discard
	Size  int              // bytes in Chunk
	End   *sandboxv1.End
	Err   *sandboxv1.ExecError
}

func (f Frame) terminal() bool { return f.Chunk == nil }

// Result is one answer to an Exec: its chunks and its terminal frame.
type Result struct {
	Stdout, Stderr []byte // empty after Discard
	Size           int    // bytes of both
	Chunks         int
	MaxChunk       int // bytes in the largest chunk
	End            *sandboxv1.End
	Err            *sandboxv1.ExecError
	At             time.Time // of the terminal frame
}

// track is what this stream knows of one req_id.
type track struct {
	sent    int // Exec frames
	base    int // terminal frames that were there when the latest was sent
	ended   int // terminal frames
	discard bool
	frames  []Frame
}

func (s *Session) trackLocked(id uint64) *track {
	if s.tracks[id] == nil {
		s.tracks[id] = &track{}
	}
	return s.tracks[id]
}

// asked notes an Exec before it is sent.
func (s *Session) asked(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.trackLocked(id)
	x.sent++
	x.base = x.ended
}

// record keeps one frame and checks what no worker may do.
func (s *Session) record(f *sandboxv1.WorkerFrame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tellLocked()
	at := time.Now()
	switch m := f.GetMsg().(type) {
	case *sandboxv1.WorkerFrame_Heartbeat:
		s.heartbeats = append(s.heartbeats, at)
	case *sandboxv1.WorkerFrame_Chunk:
		n := len(m.Chunk.GetData())
		if n > maxChunk {
			s.fault("req_id %d: a chunk of %d bytes", m.Chunk.GetReqId(), n)
		}
		s.addLocked(m.Chunk.GetReqId(), Frame{At: at, Chunk: m.Chunk, Size: n})
	case *sandboxv1.WorkerFrame_End:
		s.addLocked(m.End.GetReqId(), Frame{At: at, End: m.End})
	case *sandboxv1.WorkerFrame_Error:
		s.addLocked(m.Error.GetReqId(), Frame{At: at, Err: m.Error})
	default:
		s.fault("a frame that has no place in a session: %T", m)
	}
}

func (s *Session) addLocked(id uint64, f Frame) {
	x := s.trackLocked(id)
	switch {
	case s.conflicts[id]:
	case x.sent == 0:
		s.fault("req_id %d: %s for an exec that this stream did not ask for", id, f.what())
	case x.ended >= x.sent:
		s.fault("req_id %d: %s after the terminal frame", id, f.what())
	}
	if f.terminal() {
		x.ended++
	} else if x.discard {
		f.Chunk.Data = nil
	}
	x.frames = append(x.frames, f)
}

func (f Frame) what() string {
	switch {
	case f.Chunk != nil:
		return "a chunk"
	case f.End != nil:
		return "an End"
	}
	return "an ExecError"
}

// answers cuts the frames at the terminal ones. The last answer may have none
// yet. Session.mu is held.
func (x *track) answers() []Result {
	var answers []Result
	rest := x.frames
	for len(rest) > 0 {
		n := len(rest)
		if i := slices.IndexFunc(rest, Frame.terminal); i >= 0 {
			n = i + 1
		}
		answers = append(answers, answer(rest[:n]))
		rest = rest[n:]
	}
	return answers
}

func answer(frames []Frame) Result {
	var r Result
	var stdout, stderr bytes.Buffer
	for _, f := range frames {
		if f.terminal() {
			r.End, r.Err, r.At = f.End, f.Err, f.At
			break
		}
		r.Chunks++
		r.Size += f.Size
		r.MaxChunk = max(r.MaxChunk, f.Size)
		if f.Chunk.GetStream() == sandboxv1.Stream_STREAM_STDERR {
			stderr.Write(f.Chunk.GetData())
		} else {
			stdout.Write(f.Chunk.GetData())
		}
	}
	r.Stdout, r.Stderr = stdout.Bytes(), stderr.Bytes()
	return r
}

// Conflicting declares ids under which two different execs are asked for at once:
// the rules of one terminal frame do not hold for them. Call it before the Execs.
func (s *Session) Conflicting(ids ...uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.conflicts[id] = true
	}
}

// Discard keeps only the sizes of id's output from now on, for floods.
func (s *Session) Discard(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trackLocked(id).discard = true
}

// Frames returns what came for id so far, in order.
func (s *Session) Frames(id uint64) []Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.trackLocked(id).frames)
}

// Heartbeats returns when each one came.
func (s *Session) Heartbeats() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.heartbeats)
}
