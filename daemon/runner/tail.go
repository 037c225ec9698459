package runner

import "sync"

// TailSize is how much of a survivor's output is kept, in bytes.
const TailSize = 64 << 10

// tail keeps the last TailSize bytes written to it.
type tail struct {
	mu   sync.Mutex
	ring []byte // grows to TailSize, then wraps
	next int    // where the next byte goes once it wraps
	cut  int64  // bytes that were overwritten
}

func (t *tail) write(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if over := len(p) - TailSize; over > 0 {
		t.cut += int64(over)
		p = p[over:]
	}
	if grow := min(TailSize-len(t.ring), len(p)); grow > 0 {
		t.ring = append(t.ring, p[:grow]...)
		p = p[grow:]
	}
	for len(p) > 0 {
		n := copy(t.ring[t.next:], p)
		t.next = (t.next + n) % TailSize
		t.cut += int64(n)
		p = p[n:]
	}
}

// snapshot returns a copy of what is kept and how many bytes came before it.
func (t *tail) snapshot() ([]byte, int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := make([]byte, 0, len(t.ring))
	kept = append(kept, t.ring[t.next:]...)
	return append(kept, t.ring[:t.next]...), t.cut
}
