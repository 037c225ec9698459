// Package otlpsink is a collector for tests: it takes spans over OTLP/gRPC and
// keeps them, or misbehaves as a collector can.
package otlpsink

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Sink is one collector.
type Sink struct {
	collector.UnimplementedTraceServiceServer
	addr   string
	refuse codes.Code

	mu    sync.Mutex
	spans []*tracev1.Span
	grown chan struct{} // closed and replaced at each growth
	asked int
}

// Start starts a collector that answers everything with code, until the test's
// end.
func Start(t testing.TB, code codes.Code) *Sink {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Sink{addr: l.Addr().String(), refuse: code, grown: make(chan struct{})}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, s)
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Stop(); wg.Wait() })
	return s
}

// Endpoint is for OTEL_EXPORTER_OTLP_ENDPOINT, with protocol grpc.
func (s *Sink) Endpoint() string { return "http://" + s.addr }

// Export keeps what comes.
func (s *Sink) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.refuse != codes.OK {
		return nil, status.Error(s.refuse, "this collector says no")
	}
	for _, of := range r.GetResourceSpans() {
		for _, scope := range of.GetScopeSpans() {
			s.spans = append(s.spans, scope.GetSpans()...)
		}
	}
	close(s.grown)
	s.grown = make(chan struct{})
	return &collector.ExportTraceServiceResponse{}, nil
}

// Wait waits until enough says so of the spans that have come, and returns them.
func (s *Sink) Wait(t testing.TB, enough func([]*tracev1.Span) bool) []*tracev1.Span {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		s.mu.Lock()
		spans, grown := append([]*tracev1.Span(nil), s.spans...), s.grown
		s.mu.Unlock()
		if enough(spans) {
			return spans
		}
		select {
		case <-grown:
		case <-deadline:
			t.Fatalf("wait for spans: %d have come", len(spans))
		}
	}
}

// Asked counts the exports that were tried.
func (s *Sink) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Silent is a collector that accepts and never answers.
func Silent(t testing.TB) (endpoint string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
		for _, c := range conns {
			c.Close()
		}
	})
	return "http://" + l.Addr().String()
}
