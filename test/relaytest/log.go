package relaytest

import (
	"strings"
	"sync"
	"time"
)

// log is what a worker wrote so far. It is an io.Writer.
type log struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{} // closed and replaced at each write
}

func newLog() *log { return &log{changed: make(chan struct{})} }

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// wait says whether text came within bound.
func (l *log) wait(text string, bound time.Duration) bool {
	timeout := time.After(bound)
	for {
		l.mu.Lock()
		there, changed := strings.Contains(l.text.String(), text), l.changed
		l.mu.Unlock()
		if there {
			return true
		}
		select {
		case <-changed:
		case <-timeout:
			return false
		}
	}
}
