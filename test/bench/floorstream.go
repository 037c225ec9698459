package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	sandboxv1 "execworker/proto/sandbox/v1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// This file runs in the floor process too: the least that a grpc-go client can do
// to send a lot of chunks, with the standard codec and its default options.

const chunkSize = 32 << 10

// floorStream attaches to the relay at args[0] and answers each Exec with as many
// bytes of zeros as its command says. It ends with the stream or with its stdin.
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
	for {
		frame, err := stream.Recv()
		if err != nil {
			return nil // the relay or stdin has ended
		}
		if err := sendZeros(stream, frame.GetExec()); err != nil {
			return fmt.Errorf("floor-stream: %w", err)
		}
	}
}

func sendZeros(stream sandboxv1.SandboxWorker_AttachClient, e *sandboxv1.Exec) error {
	left, err := strconv.Atoi(e.GetCommand())
	if err != nil {
		return err
	}
	data := make([]byte, chunkSize)
	for ; left > 0; left -= chunkSize {
		chunk := &sandboxv1.Chunk{ReqId: e.GetReqId(), Stream: sandboxv1.Stream_STREAM_STDOUT, Data: data[:min(left, chunkSize)]}
		if err := stream.Send(&sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_Chunk{Chunk: chunk}}); err != nil {
			return err
		}
	}
	return stream.Send(&sandboxv1.WorkerFrame{Msg: &sandboxv1.WorkerFrame_End{End: &sandboxv1.End{ReqId: e.GetReqId()}}})
}
