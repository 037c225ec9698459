package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"

	sandboxv1 "execworker/proto/sandbox/v1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// This file runs in a floor process too: the least that a grpc-go client can do to
// send a lot of chunks, or to run a command, with the standard codec and its
// default options.

const chunkSize = 32 << 10

// floorStream attaches to the relay at args[0]. It answers an Exec whose command is
// a number with so many bytes of zeros, and runs any other with plain os/exec. It
// ends with the stream or with its stdin.
func floorStream(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("floor-stream: want the address of the relay")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	conn, err := grpc.NewClient("passthrough:///"+args[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := sandboxv1.NewSandboxWorkerClient(conn).Attach(ctx)
	if err != nil {
		return err
	}
	hello := &sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_Hello{Hello: &sandboxv1.Hello{SandboxId: "floor"}}}
	if err := stream.Send(hello); err != nil {
		return err
	}
	b := bare{stream: stream}
	for {
		frame, err := stream.Recv()
		if err != nil {
			return nil // the relay or stdin has ended
		}
		e := frame.GetExec()
		if size, err := strconv.Atoi(e.GetCommand()); err == nil {
			if err := b.zeros(e.GetReqId(), size); err != nil {
				return fmt.Errorf("floor-stream: %w", err)
			}
			continue
		}
		go b.exec(e) // ends with its command
	}
}

// bare is a worker without anything.
type bare struct {
	stream sandboxv1.SandboxWorker_AttachClient
	mu     sync.Mutex // held around Send
}

func (b *bare) exec(e *sandboxv1.Exec) {
	frame := &sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_End{End: &sandboxv1.End{ReqId: e.GetReqId()}}}
	if _, err := runPlain(e.GetCommand()); err != nil {
		frame.Msg = &sandboxv1.WorkerFrame_Error{Error: &sandboxv1.ExecError{ReqId: e.GetReqId(), Message: err.Error()}}
	}
	_ = b.send(frame) // who waits for it is told that the stream has ended
}

func (b *bare) send(frame *sandboxv1.WorkerFrame) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stream.Send(frame)
}

func (b *bare) zeros(reqID uint64, left int) error {
	data := make([]byte, chunkSize)
	for ; left > 0; left -= chunkSize {
		chunk := &sandboxv1.Chunk{ReqId: reqID, Stream: sandboxv1.Stream_STREAM_STDOUT, Data: data[:min(left, chunkSize)]}
		if err := b.send(&sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_Chunk{Chunk: chunk}}); err != nil {
			return err
		}
	}
	return b.send(&sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_End{End: &sandboxv1.End{ReqId: reqID}}})
}
