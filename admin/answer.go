package admin

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// format is how an answer is written.
type format string

const (
	formatText   format = "text"
	formatJSON   format = "json"
	formatNDJSON format = "ndjson"
	formatSSE    format = "sse"
	formatHTML   format = "html"
)

// textHeader is the first line of every text.
const textHeader = "# not a stable format: scripts ask for ?format=json\n"

// formatOf decides how r is answered, of the formats that there are for it, the
// first being the one for whoever does not care. ?format= wins, then Accept.
func formatOf(r *http.Request, offered ...format) (format, *refusal) {
	if asked := r.URL.Query().Get("format"); asked != "" || r.URL.Query().Has("format") {
		for _, f := range offered {
			if string(f) == asked {
				return f, nil
			}
		}
		return "", &refusal{
			kind:   badParameter,
			detail: fmt.Sprintf("format is %q, which is not offered here", asked),
			hint:   fmt.Sprintf("use one of %v", offered),
		}
	}
	types := map[format]string{
		formatText: "text/plain", formatJSON: "application/json", formatNDJSON: "application/x-ndjson",
		formatSSE: "text/event-stream", formatHTML: "text/html",
	}
	for part := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		name, _, _ := strings.Cut(part, ";")
		for _, f := range offered {
			if strings.EqualFold(strings.TrimSpace(name), types[f]) {
				return f, nil
			}
		}
	}
	return offered[0], nil
}

// answer writes v as JSON, or text made by text.
func answer(w http.ResponseWriter, r *http.Request, status int, v any, text func(*table)) {
	f, no := formatOf(r, formatText, formatJSON)
	if no != nil {
		refuse(w, r, *no)
		return
	}
	if f == formatText {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		var t table
		text(&t)
		_, _ = w.Write(append([]byte(textHeader), t.bytes()...))
		return
	}
	writeJSON(w, status, v)
}

// writeJSON answers with v, which is the API's own and can always be written. The
// type is application/json unless the caller has set another one.
func writeJSON(w http.ResponseWriter, status int, v any) {
	text, err := encode(v, "  ")
	if err != nil {
		panic(err) // a mistake of ours: better told than half an answer
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	_, _ = w.Write(text) // who is gone needs no answer
}

// when is a time in JSON: RFC 3339 in UTC, or null.
func when(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	return &s
}

// ms is a duration in JSON: whole milliseconds.
func ms(d time.Duration) int64 { return d.Milliseconds() }
