package admin

import (
	"context"
	"time"

	"execworker/daemon/observe"
)

// why is why an exec has not ended: one sentence, and what it rests on.
type why struct {
	kind     string
	sentence string
	evidence []string
}

// whys explains a list with one look at the processes of all.
func (s *Server) whys(ctx context.Context, list, all []observe.Inflight, status observe.Status, now time.Time, who class) map[uint64]why {
	return nil
}

func explainReceipt(r observe.Receipt, who class) string { return "" }
