package admin

import (
	"context"
	"net/http"

	"execworker/daemon/observe"
)

// class is who is asking.
type class string

const (
	operator   class = "operator"
	descendant class = "descendant"
	unknown    class = "unknown"
)

// asker is who is behind a request.
type asker struct {
	class  class
	why    string         // one sentence, for the hint of a refusal
	origin observe.Origin // of the process, if it was found
}

type askerKey struct{}

func withAsker(ctx context.Context, a asker) context.Context {
	return context.WithValue(ctx, askerKey{}, a)
}

// askerOf returns who is behind r. The guard has put it there; without one it is
// nobody.
func askerOf(r *http.Request) asker {
	a, ok := r.Context().Value(askerKey{}).(asker)
	if !ok {
		return asker{class: descendant, why: "the request came around the guard"}
	}
	return a
}
