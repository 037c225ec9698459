package main

import (
	"fmt"
	"io"

	sandboxv1 "execworker/proto/sandbox/v1"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// codec is protobuf for the relay's side, but of a chunk it reads the header
// only. Worker and raw sender share two processors with this relay, and what it
// spends on a chunk would blur what is measured: how fast chunks can be sent.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("marshal: %T is no frame", v)
	}
	b, err := proto.Marshal(m)
	return mem.BufferSlice{mem.SliceBuffer(b)}, err
}

// inbound is a chunk's header, or else a whole frame.
type inbound struct {
	isChunk bool
	reqID   uint64
	bytes   int // of the chunk's data
	frame   sandboxv1.WorkerFrame
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*inbound)
	if !ok {
		return fmt.Errorf("unmarshal: %T is no frame", v)
	}
	if err := in.readChunk(data); err != nil || in.isChunk {
		return err
	}
	return proto.Unmarshal(data.Materialize(), &in.frame)
}

// readChunk takes req_id and the size of data from the front of a message, if
// that is a chunk. All senders put req_id before data.
func (in *inbound) readChunk(data mem.BufferSlice) error {
	var front [48]byte // frame and chunk headers take at most 32
	r := data.Reader()
	defer r.Close()
	n, err := io.ReadFull(r, front[:])
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return err
	}
	b := front[:n]
	num, _, size := protowire.ConsumeTag(b)
	if size < 0 || num != 3 { // WorkerFrame.chunk
		return nil
	}
	in.isChunk = true
	b = b[size:]
	_, size = protowire.ConsumeVarint(b)
	for size >= 0 {
		b = b[size:]
		if len(b) == 0 {
			return nil // no data
		}
		num, typ, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			break
		}
		b = b[tag:]
		var value uint64
		if value, size = protowire.ConsumeVarint(b); size < 0 {
			break
		}
		switch {
		case num == 1:
			in.reqID = value
		case typ == protowire.BytesType: // data: the rest is behind front's end, perhaps
			in.bytes = int(value)
			return nil
		}
	}
	return fmt.Errorf("unmarshal: a chunk that cannot be read: %x", front[:n])
}
