package daemon

import (
	"fmt"

	"execworker/daemon/runner"
	sandboxv1 "execworker/proto/sandbox/v1"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// codec is protobuf as gRPC knows it, with two differences. A chunk is sent as
// its header and the slab itself, so output is never copied between the pipe
// and the transport; the transport frees the slab. And a frame that protobuf
// refuses costs nobody but its own req_id anything: see inbound.
type codec struct{}

// Name is that of the content type application/grpc+proto.
func (codec) Name() string { return "proto" }

// chunk is a Chunk frame whose data is still in the slab it was read into.
type chunk struct {
	reqID  uint64
	stream runner.Stream
	slab   *runner.Slab
}

// Field numbers of sandbox.proto; TestChunkIsWhatProtobufWrites holds them.
const (
	fieldFrameChunk  = 3 // WorkerFrame.chunk
	fieldChunkReqID  = 1
	fieldChunkData   = 2
	fieldChunkStream = 3
	fieldFrameExec   = 1 // ServerFrame.exec
	fieldExecReqID   = 1
)

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	out, ok := v.(*outbound)
	if !ok {
		return nil, fmt.Errorf("marshal: %T is no frame", v)
	}
	var wire mem.BufferSlice
	switch m := out.frame.(type) {
	case *chunk:
		wire = m.marshal()
	case proto.Message:
		b, err := proto.Marshal(m)
		if err != nil {
			return nil, err
		}
		wire = mem.BufferSlice{mem.SliceBuffer(b)}
	default:
		return nil, fmt.Errorf("marshal: %T is no frame", m)
	}
	out.size = wire.Len()
	return wire, nil
}

// marshal writes the same bytes as protobuf would for the fields in the order
// req_id, stream, data. The slab belongs to gRPC from here on.
func (c *chunk) marshal() mem.BufferSlice {
	size := len(*c.slab)
	inner := protowire.SizeTag(fieldChunkStream) + 1 + protowire.SizeTag(fieldChunkData) + protowire.SizeBytes(size)
	if c.reqID != 0 {
		inner += protowire.SizeTag(fieldChunkReqID) + protowire.SizeVarint(c.reqID)
	}
	b := make([]byte, 0, 40)
	b = protowire.AppendTag(b, fieldFrameChunk, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(inner))
	if c.reqID != 0 {
		b = protowire.AppendTag(b, fieldChunkReqID, protowire.VarintType)
		b = protowire.AppendVarint(b, c.reqID)
	}
	b = protowire.AppendTag(b, fieldChunkStream, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(wireStream(c.stream)))
	b = protowire.AppendTag(b, fieldChunkData, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	return mem.BufferSlice{mem.SliceBuffer(b), mem.NewBuffer((*[]byte)(c.slab), slabPool{})}
}

// slabPool gives slabs back to the runner when gRPC is done with them.
type slabPool struct{}

func (slabPool) Get(int) *[]byte { return (*[]byte)(runner.NewSlab()) }
func (slabPool) Put(b *[]byte)   { (*runner.Slab)(b).Free() }

// outbound is one message to the relay.
type outbound struct {
	frame any // a *chunk or a proto.Message
	size  int // bytes on the wire, once marshalled
}

// inbound is what one message from the relay turned out to be.
type inbound struct {
	frame *sandboxv1.ServerFrame
	size  int // bytes on the wire
	// invalid says why protobuf refuses the message. If it is an Exec whose
	// req_id can be read all the same, frame is an Exec with that and nothing
	// else, so that its caller gets an answer; else frame is nil.
	invalid error
}

// unmarshal drops what it does not know: it would be held in memory as long as
// the exec.
var unmarshal = proto.UnmarshalOptions{DiscardUnknown: true}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*inbound)
	if !ok {
		return fmt.Errorf("unmarshal: %T is no frame", v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	b := buf.ReadOnlyData()
	*in = inbound{frame: new(sandboxv1.ServerFrame), size: len(b)}
	if err := unmarshal.Unmarshal(b, in.frame); err != nil {
		in.frame, in.invalid = nil, fmt.Errorf("invalid frame: %w", err)
		if id, ok := execReqID(b); ok {
			in.frame = &sandboxv1.ServerFrame{Msg: &sandboxv1.ServerFrame_Exec{Exec: &sandboxv1.Exec{ReqId: id}}}
		}
	}
	return nil
}

// execReqID finds the req_id of an Exec in a ServerFrame that protobuf refuses,
// such as one with a command that is not UTF-8.
func execReqID(frame []byte) (id uint64, ok bool) {
	exec, ok := lastField(frame, fieldFrameExec, protowire.BytesType)
	if !ok {
		return 0, false
	}
	body, n := protowire.ConsumeBytes(exec)
	if n < 0 {
		return 0, false
	}
	value, ok := lastField(body, fieldExecReqID, protowire.VarintType)
	if !ok {
		return 0, wholeFields(body) // proto3 leaves a zero out
	}
	id, n = protowire.ConsumeVarint(value)
	return id, n >= 0
}

// lastField returns the value of the last field with that number and type: in
// protobuf the last one wins. It stops where the message cannot be read on.
func lastField(b []byte, num protowire.Number, typ protowire.Type) (value []byte, found bool) {
	for len(b) > 0 {
		gotNum, gotTyp, n := protowire.ConsumeTag(b)
		if n < 0 {
			break
		}
		size := protowire.ConsumeFieldValue(gotNum, gotTyp, b[n:])
		if size < 0 {
			break
		}
		if gotNum == num && gotTyp == typ {
			value, found = b[n:n+size], true
		}
		b = b[n+size:]
	}
	return value, found
}

// wholeFields says whether b is a row of whole fields.
func wholeFields(b []byte) bool {
	for len(b) > 0 {
		_, _, n := protowire.ConsumeField(b)
		if n < 0 {
			return false
		}
		b = b[n:]
	}
	return true
}
