package daemon

import (
	"io"
	"testing"

	"execworker/daemon/observe"
)

// Whoever asks while one session ends and the next begins gets each of them once.
func TestSessionsMissesNoneAndRepeatsNone(t *testing.T) {
	const count = 50_000
	d := &Daemon{sessions: sessions{past: history[observe.Session]{most: sessionsKept}}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range uint64(count) {
			s := &session{record: observe.Session{Number: n + 1}}
			d.sessions.begin(s)
			d.sessions.finish(s, io.EOF, 0)
		}
	}()
	newest := uint64(0)
	for newest < count {
		all := d.Sessions()
		for i, s := range all {
			if i > 0 && s.Number != all[i-1].Number-1 {
				t.Fatalf("session %d is next to %d", s.Number, all[i-1].Number)
			}
		}
		if len(all) == 0 {
			continue
		}
		if all[0].Number < newest {
			t.Fatalf("session %d was there, and now %d is the newest", newest, all[0].Number)
		}
		newest = all[0].Number
	}
	<-done
}
