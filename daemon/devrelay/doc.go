// Package devrelay is an honest single-process relay for laptops, demos and
// tests: workers attach to it, callers ask it for execs, and every frame goes
// on as it came.
//
//	caller ──ExecRequest──► open ──► worker.queue ──► send ──► worker
//	caller ◄──ExecEvent── call.events ◄── receive ◄────────── worker
//
// One goroutine sends on each stream and one receives. All execs of a worker
// share its stream, which has flow control only as a whole. So each call has a
// buffer of 8 MiB, and this is what happens to a caller that reads slowly:
//
//   - Its buffer has room: nobody else notices.
//   - Its buffer is full: the relay stops reading from that worker, which in the
//     end blocks the command itself. No frame of any call is ever lost to that.
//   - It is the only call on that worker: it may pause for as long as it likes.
//   - Others are waiting behind it: after Options.SlowCaller it is given up. Its
//     exec is aborted and its call ends with ResourceExhausted, after what was
//     buffered.
//
// What remains: a command that writes more than 8 MiB to a caller that does not
// read still holds up the others on its worker, for SlowCaller at most. To do
// without that, the wire would need flow control for each exec, or the relay a
// buffer without a bound.
//
// A req_id is reserved from the Exec until its terminal frame, even if its
// caller has gone; going away makes the relay abort the exec.
//
// What it does not do: keep anything across a restart, deliver again, or serve
// more than one process. It knows nothing of the worker but the wire.
package devrelay
