package admin

import "net/http"

// problem is an error as RFC 9457 wants it, with two fields of ours: whom it is
// about, and the way out.
type problem struct {
	Type     string  `json:"type"`
	Title    string  `json:"title"`
	Status   int     `json:"status"`
	Detail   string  `json:"detail"`
	Instance string  `json:"instance"`
	ReqID    *string `json:"req_id"`
	Hint     string  `json:"hint"`
}

// kind is one of the problems there are. Those below are all.
type kind struct {
	name   string // urn:execworker:problem:NAME
	title  string // the same for all problems of the kind
	status int
}

var (
	badParameter    = kind{"bad-parameter", "A parameter cannot be used.", http.StatusBadRequest}
	badBody         = kind{"bad-body", "The body cannot be used.", http.StatusBadRequest}
	badReqID        = kind{"bad-req-id", "That is no req_id.", http.StatusBadRequest}
	needsToken      = kind{"needs-token", "Only an operator may do that.", http.StatusUnauthorized}
	badToken        = kind{"bad-token", "The token is wrong.", http.StatusUnauthorized}
	fromInside      = kind{"from-inside", "Commands may not ask the admin API.", http.StatusForbidden}
	foreignHost     = kind{"foreign-host", "That host name is not this API's.", http.StatusForbidden}
	crossSite       = kind{"cross-site", "Other sites may not ask the admin API.", http.StatusForbidden}
	behindProxy     = kind{"behind-proxy", "A proxy in front hides who is asking.", http.StatusForbidden}
	debugOff        = kind{"debug-off", "Debugging is switched off.", http.StatusForbidden}
	noRoute         = kind{"no-route", "There is no such path.", http.StatusNotFound}
	noExec          = kind{"not-found", "There is no such exec.", http.StatusNotFound}
	wrongMethod     = kind{"wrong-method", "That method does nothing here.", http.StatusMethodNotAllowed}
	alreadyFinished = kind{"already-finished", "The exec has ended.", http.StatusConflict}
	stopping        = kind{"stopping", "The worker is stopping.", http.StatusConflict}
	otherExec       = kind{"other-exec", "Another exec has that req_id now.", http.StatusPreconditionFailed}
	wrongType       = kind{"wrong-type", "The body is of the wrong type.", http.StatusUnsupportedMediaType}
	bodyTooLarge    = kind{"body-too-large", "The body is too large.", http.StatusRequestEntityTooLarge}
	needsIfMatch    = kind{"needs-if-match", "The page must say which exec it means.", http.StatusPreconditionRequired}
	tooMany         = kind{"too-many", "Too many are asking.", http.StatusServiceUnavailable}
	broken          = kind{"broken", "The worker made a mistake.", http.StatusInternalServerError}
)

// refusal is what a handler returns instead of an answer.
type refusal struct {
	kind   kind
	detail string // what is wrong with this request: names the field
	hint   string // the way out
	reqID  string // empty when it is about no exec
}

// refuse answers with a problem. The headers that belong to its status are the
// caller's to set.
func refuse(w http.ResponseWriter, r *http.Request, no refusal) {
	p := problem{
		Type:     "urn:execworker:problem:" + no.kind.name,
		Title:    no.kind.title,
		Status:   no.kind.status,
		Detail:   no.detail,
		Instance: r.URL.Path,
		Hint:     no.hint,
	}
	if no.reqID != "" {
		p.ReqID = &no.reqID
	}
	w.Header().Set("Content-Type", "application/problem+json")
	writeJSON(w, no.kind.status, p)
}
