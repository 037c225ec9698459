package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"
)

// readBody reads a JSON object into v. No body leaves it as it is.
func readBody(w http.ResponseWriter, r *http.Request, v any) *refusal {
	text, no := takeBody(w, r)
	if no != nil {
		return no
	}
	bad := func(detail string) *refusal {
		return &refusal{kind: badBody, detail: detail, hint: "send a JSON object with the fields of /admin/openapi.json, or none"}
	}
	switch {
	case len(text) == 0:
		return nil
	case !utf8.Valid(text):
		return bad("the body is not UTF-8")
	case !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")): // null would be taken
		return bad("the body is no JSON object")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(v)
	if other := (*json.UnmarshalTypeError)(nil); errors.As(err, &other) {
		return bad(printable(fmt.Sprintf("%s: it is a %s, and has to be a %s", other.Field, other.Value, other.Type)))
	}
	if err != nil {
		return bad(printable(strings.TrimPrefix(err.Error(), "json: ")))
	}
	if _, err := decoder.Token(); err != io.EOF {
		return bad("there is something behind the object")
	}
	return nil
}
