package admin

import "net/http"

// operations are what there is to say of the routes, by "METHOD /path". A route
// without a line here, or a line without a route, fails a test.
var operations = map[string]operation{
	"GET /": {
		about:   "this list",
		answers: ok("Every path there is.", indexView{}),
		also:    eyes,
	},
	"GET /status": {
		about:   "the worker as a whole: slots, queue, relay, totals, version",
		answers: ok("The worker as it is now.", statusView{}),
		also:    eyes,
	},
	"GET /inflight": {
		about: "every exec that has not ended, and why",
		query: []param{
			{name: "state", about: "Only execs in that state.", example: "running", words: states},
			{name: "min_age", about: "Only execs that came at least so long ago.", example: "30s"},
			{name: "sort", about: "age: the oldest first; idle: the quietest first; bytes: the most output first. As they came without it.", example: "idle", words: []string{"age", "idle", "bytes"}},
			limit,
		},
		answers: ok("The execs in flight, in the order they came.", inflightList{}),
		also:    eyes,
	},
	"GET /inflight/{req_id}": {
		about:   "why one exec has not ended: a sentence, its evidence, timeline, processes and pipes",
		query:   []param{{name: "procs", about: "0: do not look at its processes.", example: "0", words: []string{"0", "1"}}},
		answers: ok("The exec. Processes and pipes are there for an operator only.", inflightDetail{}),
		refused: []kind{badReqID, noExec},
		also:    eyes,
	},
	"GET /execs": {
		about: "the last 256 execs that ended: how, by whom, at what cost",
		query: []param{
			{name: "outcome", about: "Only execs that ended so.", example: "timeout", words: outcomes},
			{name: "min_ms", about: "Only execs that took at least so many milliseconds from frame to end.", example: "500"},
			{name: "since", about: "Only execs that ended since: a time (RFC 3339), or an age before now.", example: "10m"},
			limit,
		},
		answers: ok("Receipts, newest first.", execList{}),
		also:    eyes,
	},
	"GET /execs/{req_id}": {
		about:   "every run that is known under one req_id; more than one after a collision",
		answers: ok("Its receipts, newest first.", execList{}),
		refused: []kind{badReqID, noExec},
		also:    eyes,
	},
	"GET /cache": {
		about: "what a redelivery would be answered from (dedup)",
		query: []param{
			{name: "outcome", about: "Only entries of execs that ended so.", example: "exit", words: []string{"exit", "timeout"}},
			limit,
		},
		answers: ok("The entries, most recently used first.", cacheList{}),
		also:    eyes,
	},
	"GET /survivors": {
		about:   "processes that commands left running when they ended by themselves",
		answers: ok("The trees, with the last output of each for an operator.", survivorList{}),
		also:    eyes,
	},
	"GET /survivors/{req_id}": {
		about:   "what one command left running, and its last output",
		answers: ok("Its trees: more than one after a collision.", survivorList{}),
		refused: []kind{badReqID, noExec},
		also:    eyes,
	},
	"GET /connections": {
		about:   "the relay: the session of now, and the last 64 attempts with their reasons",
		query:   []param{{name: limit.name, about: "At most so many of the history.", example: limit.example}},
		answers: ok("The session of now and those before it, newest first.", connectionList{}),
		also:    eyes,
	},
	"GET /flags": {
		about:   "every setting and where its value comes from; of secrets whether they are set",
		answers: ok("The settings.", flagList{}),
		also:    eyes,
	},
	"GET /metrics": {
		about:   "the metrics, for Prometheus",
		answers: ok("Prometheus text, or OpenMetrics where Accept asks for it.", nil),
		also:    eyes,
	},
	"GET /openapi.json": {
		about:   "this API, for programs (OpenAPI 3.1)",
		answers: ok("The description.", object{}),
	},
	"GET /events": {
		about: "what happens, as it happens: NDJSON for curl -N, SSE for a page",
		query: []param{
			{name: "types", about: "Only these types, with commas between. All without it. A snapshot in place of events that are gone, and keepalive, come anyway.", example: "exec.started,exec.finished", words: eventTypes, list: true},
			{name: "since", about: "Go on after this seq, if what came after it is still there; a snapshot comes first otherwise. Last-Event-ID says the same.", example: "17"},
			{name: "interval", about: "How often progress may come, 500ms to 1m.", example: "1s"},
		},
		headers: []param{{name: "Last-Event-ID", about: "What since= says, as EventSource sends it.", example: "17"}},
		answers: ok("A stream: a snapshot, then what happens. As SSE the seq is the id and the type the event.", nil),
		refused: []kind{tooMany},
		also:    []contentType{lineJSON, eventText},
	},
	"GET /livez": {
		about:   "whether the worker is alive; a lost relay is no reason to start it anew",
		query:   probeParams("ledger", "session"),
		answers: healthAnswers,
		also:    eyes,
	},
	"GET /readyz": {
		about:   "whether an exec that is sent now would run",
		query:   probeParams("ledger", "relay", "queue", "admission", "admin"),
		answers: healthAnswers,
		also:    eyes,
	},
	"GET /loglevel": {
		about:   "the level of the log, and until when",
		answers: ok("The level.", levelView{}),
		also:    eyes,
	},
	"POST /inflight/{req_id}/abort": {
		about:   "stop an exec, queued or running, with all that it started",
		query:   []param{waitParam},
		headers: []param{ifMatchParam},
		body:    reasonBody{},
		answers: []documented{
			{http.StatusAccepted, "It will be stopped.", abortAnswer{}},
			{http.StatusOK, "It has ended; only with wait=.", abortAnswer{}},
		},
		refused: append([]kind{noExec, alreadyFinished, otherExec}, actRefusals...),
		also:    eyes,
	},
	"POST /survivors/{req_id}/abort": {
		about:   "end what a command left running",
		query:   []param{waitParam},
		headers: []param{ifMatchParam},
		body:    reasonBody{},
		answers: []documented{
			{http.StatusAccepted, "It is being ended.", survivorsAnswer{}},
			{http.StatusOK, "Nothing of it is left; only with wait=.", survivorsAnswer{}},
		},
		refused: append([]kind{noExec, otherExec}, actRefusals...),
		also:    eyes,
	},
	"PUT /loglevel": {
		about:   "set the level of the log, for a while or for good",
		body:    levelBody{},
		answers: ok("The level as it is now.", levelView{}),
		refused: actRefusals,
		also:    eyes,
	},
	"POST /drain": {
		about:   "refuse new execs; what was admitted runs on",
		body:    reasonBody{},
		answers: []documented{{http.StatusAccepted, "New execs are refused.", drainAnswer{}}},
		refused: actRefusals,
		also:    eyes,
	},
	"DELETE /drain": {
		about:   "take new execs again",
		answers: ok("New execs are taken.", drainAnswer{}),
		refused: []kind{stopping},
		also:    eyes,
	},
	"GET /debug/pprof/":          debugOperation("the profiles there are (net/http/pprof)"),
	"GET /debug/pprof/cmdline":   debugOperation("the arguments of the worker"),
	"GET /debug/pprof/profile":   debugOperation("a profile of the CPU; seconds= long"),
	"GET /debug/pprof/symbol":    debugOperation("names of functions, for go tool pprof"),
	"GET /debug/pprof/trace":     debugOperation("an execution trace; seconds= long"),
	"GET /debug/pprof/{profile}": debugOperation("one profile, such as heap or goroutine"),
	"GET /debug/tracez":          debugOperation("spans that run now, and some that have ended"),
	"GET /debug/vars":            debugOperation("memory statistics of the worker (expvar)"),
}

func debugOperation(about string) operation {
	return operation{about: about, answers: ok("As Go's own tools expect it.", nil), refused: []kind{debugOff}, also: []contentType{anyBytes}}
}

func probeParams(checks ...string) []param {
	return []param{
		{name: "verbose", about: "Tell every check, one a line.", example: "1", words: []string{"1", "0", "true", "false"}},
		{name: "exclude", about: "Leave that check out. May be given several times.", example: checks[0], words: checks, many: true},
	}
}

var (
	healthAnswers = []documented{
		{http.StatusOK, "Every check is right.", healthView{}},
		{http.StatusServiceUnavailable, "A check is not.", healthView{}},
	}
	waitParam    = param{name: "wait", about: "Answer when it is over, or after so long, at most 1m.", example: "2s"}
	ifMatchParam = param{name: "If-Match", about: "The etag of the execution that is meant. A page must send it.", example: "17"}
	actRefusals  = []kind{badReqID, badBody, wrongType, bodyTooLarge, needsIfMatch}
)

// places are the names in braces of paths.
var places = map[string]string{
	"req_id":  "The caller's number of the exec: an unsigned 64-bit integer in decimal, without leading zeros.",
	"profile": "The name of a profile.",
}

// limit is the parameter of every list that can be long.
var limit = param{name: "limit", about: "At most so many.", example: "20"}

// eyes is said of all that has a text for people.
var eyes = []contentType{plainText}

// anywhere are the problems that any route can answer with.
var anywhere = []kind{badParameter, needsToken, badToken, fromInside, foreignHost, crossSite, behindProxy, wrongMethod, tooMany, broken}

func ok(about string, view any) []documented {
	return []documented{{http.StatusOK, about, view}}
}
