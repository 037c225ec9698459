package admin

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// metaRoutes are about the API and the program: index, openapi.json, flags, metrics.
func (s *Server) metaRoutes() []route {
	routes := []route{
		{http.MethodGet, "/", unknown, s.showIndex},
		{http.MethodGet, "/openapi.json", unknown, s.showOpenAPI},
		{http.MethodGet, "/flags", operator, s.listFlags},
	}
	if s.options.Metrics != nil {
		routes = append(routes, route{http.MethodGet, "/metrics", unknown, s.options.Metrics.ServeHTTP})
	}
	return routes
}

// indexView is the answer to GET /.
type indexView struct {
	APIVersion string     `json:"api_version"`
	Paths      []pathView `json:"paths"`
}

type pathView struct {
	Method string   `json:"method"`
	Path   string   `json:"path"`
	Who    string   `json:"who"` // any, operator or debug
	About  string   `json:"about"`
	Params []string `json:"params"`
}

func (s *Server) showIndex(w http.ResponseWriter, r *http.Request) {
	if no := paramsOf(r).done(); no != nil {
		refuse(w, r, *no)
		return
	}
	v := indexView{APIVersion: "v1", Paths: []pathView{}}
	for _, each := range s.routes() {
		op := operations[each.method+" "+each.path]
		path := pathView{Method: each.method, Path: canonical + each.path, Who: whoMay(each), About: op.about, Params: []string{}}
		for _, p := range op.query {
			path.Params = append(path.Params, p.name)
		}
		v.Paths = append(v.Paths, path)
	}
	answer(w, r, http.StatusOK, v, v.text)
}

func whoMay(r route) string {
	switch {
	case strings.HasPrefix(r.path, "/debug/"):
		return "debug" // an operator, if the worker was started with ADMIN_DEBUG=1
	case r.who == operator:
		return "operator"
	}
	return "any"
}

func (v indexView) text(t *table) {
	t.line("execworker, admin API %s: curl localhost/admin/inflight (without the v1 it is always the newest)", v.APIVersion)
	t.row("METHOD", "PATH", "WHO", "WHAT")
	for _, p := range v.Paths {
		t.row(p.Method, p.Path, p.Who, p.About)
	}
	t.line("parameters and every field of every answer: %s/openapi.json", canonical)
}

// flagList is the answer to GET /flags.
type flagList struct {
	head
	Flags []flagView `json:"flags"`
}

type flagView struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
	Secret bool   `json:"secret"`
}

func (s *Server) listFlags(w http.ResponseWriter, r *http.Request) {
	if no := paramsOf(r).done(); no != nil {
		refuse(w, r, *no)
		return
	}
	list := flagList{head: s.head(time.Now()), Flags: []flagView{}}
	for _, f := range s.options.Flags {
		if f.Secret && f.Value != "unset" {
			f.Value = "set" // whatever else it might be
		}
		list.Flags = append(list.Flags, flagView(f))
	}
	answer(w, r, http.StatusOK, list, list.text)
}

func (l flagList) text(t *table) {
	t.row("SETTING", "VALUE", "FROM")
	for _, f := range l.Flags {
		value := ascii(f.Value)
		if f.Secret {
			value = fmt.Sprintf("(secret, %s)", f.Value)
		}
		t.row(f.Name, value, f.Source)
	}
}
