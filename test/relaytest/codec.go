package relaytest

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// rawMessage goes out as it is, in place of a marshalled ServerFrame.
type rawMessage []byte

// codec is gRPC's own protobuf codec, and lets a rawMessage through unchanged.
// What comes in is always decoded.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if raw, isRaw := v.(rawMessage); isRaw {
		return mem.BufferSlice{mem.SliceBuffer(raw)}, nil
	}
	return c.CodecV2.Marshal(v)
}
