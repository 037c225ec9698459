package telemetry

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"execworker/daemon/observe"
)

// traceID is the same for whoever knows sandbox and req_id, so that a caller can
// find the trace of what it asked for with no field for that on the wire:
//
//	printf 'sandbox.v1|sbx-1|7' | sha256sum | cut -c1-32
//
// Redeliveries and collisions of one req_id are in one trace.
func traceID(sandboxID string, id observe.ID) (t trace.TraceID) {
	sum := sha256.Sum256([]byte(id.Source + "|" + sandboxID + "|" + id.ID))
	copy(t[:], sum[:])
	return t
}

type (
	traceIDKey struct{}
	spanIDKey  struct{}
)

func withTraceID(ctx context.Context, id trace.TraceID) context.Context {
	return context.WithValue(ctx, traceIDKey{}, id)
}

func withSpanID(ctx context.Context, id trace.SpanID) context.Context {
	return context.WithValue(ctx, spanIDKey{}, id)
}

// ids gives the ids that a context asks for, and random ones otherwise.
type ids struct{}

var _ sdktrace.IDGenerator = ids{}

func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, ok := ctx.Value(traceIDKey{}).(trace.TraceID)
	for !ok || !id.IsValid() {
		for i := range id {
			id[i] = byte(rand.Uint32())
		}
		ok = true
	}
	return id, randomSpanID()
}

func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if id, ok := ctx.Value(spanIDKey{}).(trace.SpanID); ok {
		return id
	}
	return randomSpanID()
}

func randomSpanID() (id trace.SpanID) {
	for !id.IsValid() {
		for i := range id {
			id[i] = byte(rand.Uint32())
		}
	}
	return id
}
