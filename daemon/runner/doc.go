// Package runner runs one bash command: its streams in and out, its timeout,
// its end.
//
//	Start ─► pipes ─► process.Spawn ─► two readers ─► Output
//	                        │              ▲
//	Wait ◄─ main ended ◄────┘              └─ stdin is written beside them
//
// A run is over when both output pipes are at their end. If something else
// still holds one after main has ended, it is over when a read has waited
// 250 ms on empty pipes, or after 2 s; what was in the pipes when main ended
// is delivered in any case, however slowly the Output takes it. From then on
// the pipes are only drained (the last 64 KiB are kept), so that whatever lives
// on never blocks and never meets a broken pipe.
//
// Reading output and waiting for main are two different things here: the pipes
// are ours and are read with deadlines, and no wait depends on anybody else
// closing one.
//
// The package knows nothing of req_ids, frames or sessions. Each Run owns at
// most four goroutines (two readers, the stdin writer, one that closes the
// pipes when the tree is gone), and all of them end when the tree is gone.
package runner
