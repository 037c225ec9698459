package main

import (
	"context"
	"net"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

// tracedRow is what traces cost: true at a worker that sends each of them to a
// collector, and at one that makes none as the floor.
func tracedRow(ctx context.Context, b *bench) ([]result, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, takesAll{})
	go func() { _ = server.Serve(l) }() // until it is stopped
	defer server.Stop()
	traced, err := b.startWorker(ctx, "WORKER_MAX_CONCURRENT=16", "SANDBOX_ID=traced",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://"+l.Addr().String(), "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	if err != nil {
		return nil, err
	}
	var with, without []float64
	for range b.sizes.trueRounds {
		for _, of := range []struct {
			w    *worker
			into *[]float64
		}{{b.worker, &without}, {traced, &with}} {
			took, err := of.w.runs(ctx, "true", b.sizes.trueBatch)
			if err != nil {
				return nil, err
			}
			*of.into = append(*of.into, median(in(time.Millisecond, took)))
		}
	}
	if err := traced.stop(); err != nil {
		return nil, err
	}
	return []result{compared("true p50, traced", "ms", with, without, target{Most: 1.02})}, nil
}

// takesAll is a collector that throws everything away.
type takesAll struct {
	collector.UnimplementedTraceServiceServer
}

func (takesAll) Export(context.Context, *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	return &collector.ExportTraceServiceResponse{}, nil
}
