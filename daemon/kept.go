package daemon

import "execworker/daemon/runner"

// keptMost is how much of each stream is kept in buffered mode, in bytes. What
// comes after is read and dropped.
const keptMost = 8 << 20

// kept is the output of an exec in buffered mode: its slabs, stdout and stderr.
// Each stream has one writer.
type kept struct {
	streams [2]struct {
		slabs []*runner.Slab
		bytes int
		cut   int64
	}
	chunks [2]int64 // taken
}

func (k *kept) put(stream runner.Stream, slab *runner.Slab) *runner.Slab {
	s := &k.streams[stream-runner.Stdout]
	if over := s.bytes + len(*slab) - keptMost; over > 0 {
		s.cut += int64(over)
		*slab = (*slab)[:len(*slab)-over]
	}
	s.bytes += len(*slab)
	rest := *slab
	if n := len(s.slabs); n > 0 { // no slab but the last is less than full
		last := s.slabs[n-1]
		fits := min(len(rest), runner.SlabSize-len(*last))
		*last = append(*last, rest[:fits]...)
		rest = rest[fits:]
	}
	if len(rest) == 0 {
		return reset(slab)
	}
	*slab = append((*slab)[:0], rest...)
	s.slabs = append(s.slabs, slab)
	return runner.NewSlab()
}

// truncated says that stdout was cut; of a nil kept, which is streaming, never.
func (k *kept) truncated() bool { return k != nil && k.streams[0].cut > 0 }

// take returns all slabs, stdout's and stderr's; they are the caller's. A nil
// kept, which is streaming, has none.
func (k *kept) take() (all [2][]*runner.Slab) {
	if k == nil {
		return all
	}
	for i := range k.streams {
		all[i], k.streams[i].slabs = k.streams[i].slabs, nil
		k.chunks[i] += int64(len(all[i]))
	}
	return all
}
