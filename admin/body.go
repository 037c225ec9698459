package admin

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	bodyMost = 4 << 10 // bytes
	bodyTime = 5 * time.Second
)

// hasBody says that more than headers is to come.
func hasBody(r *http.Request) bool {
	return r.ContentLength != 0 && r.Body != nil && r.Body != http.NoBody
}

// limitBody bounds how long a body may take, whoever reads it: what a handler
// leaves net/http reads itself, without a limit of its own, so that a body that
// never comes would hold its connection for ever.
func limitBody(w http.ResponseWriter, r *http.Request) {
	if hasBody(r) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // a recorder has none
	}
}

// takeBody reads a body, which is small. The limit ends with it: it would end a
// wait for something else too.
func takeBody(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	if !hasBody(r) {
		return nil, nil
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMost))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		w.Header().Set("Connection", "close") // net/http would read the rest before it answers
		return nil, &refusal{kind: bodyTooLarge, detail: fmt.Sprintf("the body has more than %d bytes", bodyMost), hint: "send a small JSON object"}
	}
	if err != nil {
		return nil, &refusal{kind: badBody, detail: "the body could not be read: " + printable(err.Error()), hint: "send all of it within " + bodyTime.String()}
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return text, nil
}
