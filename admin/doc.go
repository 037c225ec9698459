// Package admin is the way to look into a worker and to stop an exec: an HTTP
// API on a unix socket and on loopback, for an operator's curl, the command line
// and the page.
//
// Commands share the worker's network and user, so who is asking decides what is
// shown. Each request is classed by the process behind its connection before it
// is routed (asker.go):
//
//	operator    a process of root or of our own user that did not come out of a
//	            command, or one of those with the token: everything
//	descendant  a process that came out of a command: nothing, and an event
//	unknown     no such process can be found: lists without command text
//
// All that is shown is made of observe snapshots and events when somebody asks.
// The package keeps nothing of its own but the feed: the last events and who
// follows them.
//
//	server.go   what a Server needs, routes
//	asker.go    the three classes
//	door.go     one listener and its limits
//	peer.go     the socket at the other end, and diag.go how the kernel is asked
//	guard.go    what is refused before it is routed
//	body.go     how long and how large a body may be
//	denials.go  what was refused to commands, reported
//	answer.go   text, JSON, page: who gets what
//	problem.go  every error there is
//	feed.go     events and who follows them
//	view.go     what is shown of an exec, and to whom; view_receipt.go, when it has ended
//	list.go     the lists, and execs.go, connections.go, survivors.go, status.go
//	exec.go     one exec in flight, and timeline.go, pstree.go
//	why.go      why an exec has not ended: why_running.go follows its processes, why_wait.go
//	            knows what one waits for, why_held.go what keeps its end, why_ended.go how it was
//	param.go    parameters, and what is wrong with them
//	openapi.go  the description of all this, made of routes and types
package admin
