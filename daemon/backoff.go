package daemon

import (
	"math/rand/v2"
	"time"
)

const (
	backoffFirst = 500 * time.Millisecond
	backoffMost  = 30 * time.Second
)

// backoff is how long to wait before the next attempt after failures in a row
// without a healthy session. It is a random point in a window that doubles, so
// that workers which lost the same relay do not come back all at once.
func backoff(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	window := backoffMost
	if shift := failures - 1; shift < 6 { // 500 ms << 6 is past 30 s
		window = min(backoffFirst<<shift, backoffMost)
	}
	return rand.N(window) + 1
}
