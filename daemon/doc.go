// Package daemon is the exec machine: it attaches to a relay, admits the Exec
// frames that come, runs them and answers each with one terminal frame.
//
//	Exec frame ─► session.receive ─► newExecution ─► ledger.admit
//	                                                   │ run
//	                             queue (64) ◄──────────┤
//	                                 ▼                 ▼
//	                               slot ─► run ─► runner ─► process ─► bash -c
//	                                        │ output: Put
//	                                        ▼
//	                          lane (or kept, in buffered mode)
//	                                        ▼
//	outcome ─► lane.flush ─► ledger.finish ─► lane.end ─► sender.next ─► session.send ─► relay
//
//	Abort frame, or Daemon.Abort ─► ledger.abort ─► execution.cancel(cause) ─► the tree is swept
//
// An operator looks in by the methods that return snapshots (snapshot.go) and
// acts by Abort, AbortSurvivors (abort.go), CloseAdmission, OpenAdmission
// (admission.go) and Drain. All of them may be called from any goroutine, before
// Run and after it.
//
// # Goroutines
//
// Run has one session at a time. A session has one goroutine that receives,
// which never waits for work, and one that sends. Each exec that has a slot has
// one, which takes the next exec from the queue when it is done; its two output
// pipes have one each. Each exec that has ended has one until its tree is known
// to be gone. Run waits for all of them.
//
// # Locks
//
// The ledger's lock guards what is in flight and what has finished: admission,
// abort and the end of an exec are single decisions under it, and nothing is
// sent, run or reported while it is held. The sender's lock guards the lanes.
// No code holds two locks of this package at once, but that Daemon.door, which
// keeps changes of admission and their events in one order, is held around the
// ledger's.
//
// # Contexts
//
// An execution's context comes from its session's, and that from Run's. Each
// ends with a cause, and the cause picks the terminal frame. The ledger
// outlives all sessions; nothing that belongs to one is sent on another.
package daemon
