package daemon

import "slices"

// queue is first in, first out. It keeps its memory while it goes up and down,
// so that what is steady costs no allocation.
type queue[T any] struct {
	items []T
	head  int // of the first one
}

func (q *queue[T]) len() int { return len(q.items) - q.head }

func (q *queue[T]) push(v T) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

// pop takes the first one; there must be one.
func (q *queue[T]) pop() T {
	var zero T
	v := q.items[q.head]
	q.items[q.head] = zero // do not keep it alive
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return v
}

// remove takes out what matches.
func (q *queue[T]) remove(match func(T) bool) {
	q.items, q.head = slices.DeleteFunc(slices.Delete(q.items, 0, q.head), match), 0
}

// all are the items, first to last, until the next push or pop.
func (q *queue[T]) all() []T { return q.items[q.head:] }
