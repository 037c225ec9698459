package admin

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// operation is what there is to say of one route.
type operation struct {
	about   string // one phrase, for the index too
	query   []param
	headers []param
	body    any           // a zero value of what the body may be; nil: there is none
	answers []documented  // the good ones
	refused []kind        // the problems of its own, beside those that any route has
	also    []contentType // what a good answer may be instead of JSON
}

// documented is one answer: a zero value of its view.
type documented struct {
	status int
	about  string
	view   any
}

// contentType is a way to answer that has no schema.
type contentType string

const (
	plainText contentType = "text/plain"
	eventText contentType = "text/event-stream"
	lineJSON  contentType = "application/x-ndjson"
	anyBytes  contentType = "application/octet-stream"
)

// param is a parameter of the query, or a header.
type param struct {
	name    string
	about   string
	example string   // that is taken as it is
	words   []string // the only values; nil when there are others
	many    bool     // it may be there more than once
	list    bool     // it is several words with commas between
}

// object is a JSON object of the description.
type object map[string]any

func (s *Server) showOpenAPI(w http.ResponseWriter, r *http.Request) {
	if no := paramsOf(r).done(); no != nil {
		refuse(w, r, *no)
		return
	}
	if _, no := formatOf(r, formatJSON); no != nil {
		refuse(w, r, *no)
		return
	}
	writeJSON(w, http.StatusOK, describe(s.routes(), s.options.Version))
}

// describe makes the OpenAPI 3.1 description of routes. What is said of each is
// in operations; schemas are made of the types of the answers themselves, so
// they cannot say anything else than what is sent.
func describe(routes []route, version string) object {
	all := schemas{}
	problemSchema := all.of(problem{})
	paths := object{}
	for _, each := range routes {
		path, ok := paths[canonical+each.path].(object)
		if !ok {
			path = object{}
			paths[canonical+each.path] = path
		}
		path[strings.ToLower(each.method)] = all.operation(each, problemSchema)
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title":   "execworker admin API",
			"version": version,
			"description": "What runs in this worker, and why it has not ended. /admin is an alias of " + canonical + ". " +
				"Ask for JSON by ?format=json: without it curl gets text for eyes, which is not stable. " +
				"Every field is always there and null where there is nothing to say, but for those that only an operator gets. " +
				"Times are RFC 3339 in UTC; *_ms are whole milliseconds; *_bytes are bytes; ids are strings.",
		},
		"paths": paths,
		"components": object{
			"schemas": all,
			"securitySchemes": object{
				"token": object{"type": "http", "scheme": "bearer", "description": "ADMIN_TOKEN. Not needed over the unix socket, or from a process whose user is root or the worker's."},
			},
		},
	}
}

func (all schemas) operation(r route, problemSchema object) object {
	op := operations[r.method+" "+r.path]
	responses := object{
		"default": object{
			"description": "A problem (RFC 9457). " + problemNames(op.refused),
			"content":     object{"application/problem+json": object{"schema": problemSchema}},
		},
	}
	for _, a := range op.answers {
		content := object{}
		if a.view != nil {
			content["application/json"] = object{"schema": all.of(a.view)}
		}
		for _, also := range op.also {
			content[string(also)] = object{"schema": object{"type": "string"}}
		}
		if slices.Contains(op.also, lineJSON) { // the schema is of one line
			content[string(lineJSON)] = object{"schema": object{"oneOf": all.ofEvents()}}
		}
		responses[strconv.Itoa(a.status)] = object{"description": a.about, "content": content}
	}
	params := []object{}
	for _, part := range strings.Split(r.path, "/") {
		if name, place := placeOf(part); place {
			params = append(params, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}, "description": places[name]})
		}
	}
	for _, p := range append(slices.Clone(op.query), op.formats()...) {
		params = append(params, p.describe("query"))
	}
	for _, p := range op.headers {
		params = append(params, p.describe("header"))
	}
	description := object{
		"operationId": operationID(r),
		"summary":     op.about,
		"parameters":  params,
		"responses":   responses,
		"x-who":       whoMay(r), // any, operator or debug
	}
	if whoMay(r) != "any" {
		description["security"] = []object{{"token": []string{}}, {}}
	}
	if op.body != nil {
		description["requestBody"] = object{"required": false, "content": object{"application/json": object{"schema": all.of(op.body)}}}
	}
	return description
}

// formats is the parameter that every route has which answers in more than one.
func (op operation) formats() []param {
	p := param{name: "format", about: "How to answer, whatever Accept says.", example: "json"}
	switch {
	case slices.Contains(op.also, lineJSON):
		p.words, p.example = []string{string(formatNDJSON), string(formatSSE)}, string(formatNDJSON)
	case len(op.answers) == 0 || op.answers[0].view == nil:
		return nil
	case slices.Contains(op.also, plainText):
		p.words = []string{string(formatText), string(formatJSON)}
	default:
		p.words = []string{string(formatJSON)}
	}
	return []param{p}
}

func (p param) describe(in string) object {
	schema := object{"type": "string"}
	if p.words != nil {
		schema["enum"] = p.words
	}
	var example any = p.example
	if p.many || p.list {
		schema, example = object{"type": "array", "items": schema}, strings.Split(p.example, ",")
	}
	described := object{"name": p.name, "in": in, "required": false, "description": p.about, "example": example, "schema": schema}
	if p.list {
		described["explode"] = false
	}
	return described
}

func problemNames(own []kind) string {
	names := map[string]bool{}
	for _, k := range append(slices.Clone(own), anywhere...) {
		names[k.name] = true
	}
	return "One of urn:execworker:problem: with " + strings.Join(slices.Sorted(maps.Keys(names)), ", ") + "."
}

// placeOf is the name in braces that a part of a path can be.
func placeOf(part string) (name string, place bool) {
	name, place = strings.CutPrefix(part, "{")
	return strings.TrimSuffix(name, "}"), place
}

// operationID is a name for programs: getInflightByReqId.
func operationID(r route) string {
	id := strings.ToLower(r.method)
	for _, part := range strings.Split(r.path, "/") {
		name, place := placeOf(part)
		if place {
			id += "By"
		}
		for _, word := range strings.FieldsFunc(name, func(c rune) bool { return c == '_' || c == '.' }) {
			id += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	if r.path == "/" {
		id += "Index"
	}
	return id
}
