// Package relaytest is a relay that misbehaves on request, for contract tests
// of the built worker: it stalls, cuts, refuses, drops, repeats and sends what no
// honest relay would.
//
//	r := relaytest.New(t)
//	relaytest.StartWorker(t, r, nil)
//	s := r.Attach(t)            // waits for Hello
//	s.Exec(t, 4, "echo x")
//	s.WantEnd(t, 4, 0)
//
// It speaks gRPC with a stock grpc-go server and its defaults (4 MiB a message,
// default keepalive enforcement), over a thin TCP layer of its own.
//
// Every frame is recorded, by req_id and in order. What no worker may ever send
// fails the test at its end without being asked for: a first frame that is not a
// Hello, a second Hello, a frame that cannot be decoded or is too large, a chunk of
// more than 32 KiB, a frame for a req_id that this stream did not ask for, more
// terminal frames than Execs, a chunk after the terminal frame.
//
// Everything waits on what happened, never for a time to pass; a wait that hangs
// fails the test after a bound far above what any step takes. Functions that take
// a testing.TB may call Fatal: use them on the test's own goroutine.
package relaytest
