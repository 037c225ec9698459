package runner

import "sync"

// SlabSize is the most that one Slab holds, and with it the largest chunk.
const SlabSize = 32 << 10

// Slab is a piece of output: as long as what it holds, with room for SlabSize.
// It has one owner at a time. Who owns it frees it or hands it on.
type Slab []byte

var slabs = sync.Pool{New: func() any {
	s := make(Slab, 0, SlabSize)
	return &s
}}

// NewSlab returns an empty Slab.
func NewSlab() *Slab { return slabs.Get().(*Slab) }

// Free gives the slab back. It must not be used after.
func (s *Slab) Free() {
	*s = (*s)[:0]
	slabs.Put(s)
}

// room is what can still be read into the slab.
func (s *Slab) room() []byte { return (*s)[len(*s):cap(*s)] }

// grow makes n bytes that were read into room part of the slab.
func (s *Slab) grow(n int) { *s = (*s)[:len(*s)+n] }
