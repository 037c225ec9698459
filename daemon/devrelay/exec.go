package devrelay

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sandboxv1 "execworker/proto/sandbox/v1"
)

type execService struct {
	sandboxv1.UnimplementedSandboxExecServer
	relay *Relay
}

// Exec forwards one exec and its events. Unauthenticated: bad token. NotFound:
// no such sandbox. AlreadyExists: the req_id is in use there. ResourceExhausted:
// the caller read too slowly. How the exec itself ended is in the last event.
func (s execService) Exec(req *sandboxv1.ExecRequest, stream grpc.ServerStreamingServer[sandboxv1.ExecEvent]) error {
	ctx := stream.Context()
	w, err := s.find(ctx, "exec", req.GetSandboxId())
	if err != nil {
		return err
	}
	if req.GetExec() == nil {
		return status.Error(codes.InvalidArgument, "exec: the request has no exec")
	}
	c, err := w.open(req.GetExec())
	if err != nil {
		return err
	}
	for {
		ev, ended := c.take()
		switch {
		case ended:
			return endWithoutTerminal(c, stream)
		case ev == nil:
			select {
			case <-c.ready:
			case <-ctx.Done():
				w.leave(c)
				return status.FromContextError(ctx.Err()).Err()
			}
			continue
		}
		if err := stream.Send(ev); err != nil {
			w.leave(c)
			return err
		}
		if isTerminal(ev) {
			return nil
		}
	}
}

func endWithoutTerminal(c *call, stream grpc.ServerStreamingServer[sandboxv1.ExecEvent]) error {
	if err := c.failure(); err != nil {
		return err
	}
	return stream.Send(&sandboxv1.ExecEvent{Event: &sandboxv1.ExecEvent_Error{
		Error: &sandboxv1.ExecError{ReqId: c.id, Message: "worker disconnected"},
	}})
}

// Abort forwards an Abort, also for a req_id that this relay did not give out.
func (s execService) Abort(ctx context.Context, req *sandboxv1.AbortRequest) (*sandboxv1.AbortResponse, error) {
	w, err := s.find(ctx, "abort", req.GetSandboxId())
	if err != nil {
		return nil, err
	}
	w.abort(req.GetReqId())
	return &sandboxv1.AbortResponse{}, nil
}

// find checks the caller's token, then looks for its sandbox.
func (s execService) find(ctx context.Context, step, sandboxID string) (*worker, error) {
	r := s.relay
	if !bears(ctx, r.opts.ExecToken) {
		return nil, status.Errorf(codes.Unauthenticated, "%s: no valid token; send the metadata \"authorization: Bearer <token>\"", step)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.workers[sandboxID]; w != nil {
		return w, nil
	}
	attached := "none"
	if hellos := r.sandboxesLocked(); len(hellos) > 0 {
		var ids []string
		for _, h := range hellos {
			ids = append(ids, fmt.Sprintf("%q", h.GetSandboxId()))
		}
		attached = strings.Join(ids, ", ")
	}
	return nil, status.Errorf(codes.NotFound, "%s: sandbox %q is not attached; attached: %s", step, sandboxID, attached)
}
