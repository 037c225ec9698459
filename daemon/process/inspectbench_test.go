package process

import (
	"fmt"
	"os"
	"testing"
)

// BenchmarkInspect is one answer about 200 trees of two processes, with a look
// to compare with at hand, and what the guard of the API asks per request.
func BenchmarkInspect(b *testing.B) {
	o, err := NewOwner(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer o.Close()
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	var subjects []Subject
	for range 200 {
		fd := int(w.Fd())
		tree, err := o.Spawn(Command{Path: "/bin/bash", Args: []string{"bash", "-c", "echo; sleep 300; :"}, Env: os.Environ(), Files: [3]int{fd, fd, fd}})
		if err != nil {
			b.Fatal(err)
		}
		defer tree.Sweep()
		if _, err := r.Read(make([]byte, 1)); err != nil {
			b.Fatal(err)
		}
		subjects = append(subjects, Subject{Tree: tree, Pipes: [3]uint64{1: 1}}) // nobody holds it: the dearest case
	}
	for _, files := range []bool{false, true} {
		b.Run(fmt.Sprintf("files=%v", files), func(b *testing.B) {
			o.Inspect(b.Context(), subjects, files) // has to wait for a second look
			for b.Loop() {
				if n := len(o.Inspect(b.Context(), subjects, files)); n != len(subjects) {
					b.Fatal(n, "trees")
				}
			}
		})
	}
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			o.Inspect(b.Context(), subjects[:1], true)
		}
	})
	b.Run("Origin", func(b *testing.B) {
		for b.Loop() {
			o.Origin(subjects[0].Tree.PID())
		}
	})
	b.Run("Holders", func(b *testing.B) {
		for b.Loop() {
			o.Holders(1)
		}
	})
}
