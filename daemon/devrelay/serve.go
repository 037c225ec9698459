package devrelay

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
)

const (
	// maxRequest is what an ExecRequest may weigh: a worker takes frames of up
	// to 64 MiB, and the request has a sandbox_id on top.
	maxRequest = 64<<20 + 64<<10
	// maxWorkerFrame is what newer relays take from a worker.
	maxWorkerFrame = 16 << 20
)

// Serve serves the relay on l, with gRPC reflection, until ctx ends; it then
// breaks every connection, closes the relay and returns nil. It owns l. An
// error means that l failed. A relay is served once.
func (r *Relay) Serve(ctx context.Context, l net.Listener, opts ...grpc.ServerOption) error {
	base := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.WaitForHandlers(true),
		// A worker whose machine went away would hold its sandbox_id for ever.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 20 * time.Second}),
	}
	s := grpc.NewServer(append(base, opts...)...)
	r.Register(s)
	reflection.Register(s)

	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		s.Stop() // not gracefully: an Attach never ends by itself
	})
	err := s.Serve(l)
	if stop() {
		s.Stop()
	} else {
		<-stopped
		err = nil
	}
	r.Close()
	if err != nil {
		return fmt.Errorf("serve relay: %w", err)
	}
	return nil
}
