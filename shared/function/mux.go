package function

import (
	"context"
	"net/http"
	"path"
	"slices"
	"strings"

	"agents.example/controlplane/shared/fault"
)

// Prefix is what every canonical path of the interface begins with.
const Prefix = "/api/v1"

// Served is a function that has been handed what it needs.
type Served struct {
	Method  string
	Path    string
	Handler http.Handler
}

// Mux serves functions side by side: their canonical paths, the same without the prefix for agents, and the errors of
// paths and methods that do not exist.
func Mux(functions []Served) http.Handler {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for _, f := range functions {
		mux.Handle(f.Method+" "+f.Path, f.Handler)
		methods[f.Path] = append(methods[f.Path], f.Method)
	}
	for p, allowed := range methods {
		slices.Sort(allowed)
		mux.Handle(p, observed("MethodNotAllowed",
			func(w http.ResponseWriter, req *http.Request) (context.Context, error) {
				w.Header().Set("Allow", strings.Join(allowed, ", "))
				return req.Context(), fault.New(fault.MethodNotAllowed, "method_not_allowed", "This path takes %s.",
					strings.Join(allowed, ", "))
			}))
	}
	missing := observed("NotFound", func(_ http.ResponseWriter, req *http.Request) (context.Context, error) {
		return req.Context(), fault.New(fault.NotFound, "not_found",
			"There is nothing at this path. The interface is described at /openapi.json.")
	})
	if _, taken := methods["/"]; !taken {
		mux.Handle("/", missing)
	}
	return canonical(mux, missing)
}

// canonical serves /agents... as /api/v1/agents...: an internal rewrite, never a redirect, on which clients drop bodies
// and headers. For the same reason a path with empty or dotted segments is missing, instead of being cleaned by a
// redirect.
func canonical(next, missing http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if p := req.URL.EscapedPath(); p != "/" && path.Clean(p) != strings.TrimSuffix(p, "/") {
			missing.ServeHTTP(w, req)
			return
		}
		if p := req.URL.Path; p == "/agents" || strings.HasPrefix(p, "/agents/") {
			u := *req.URL
			u.Path = Prefix + p
			if u.RawPath != "" {
				u.RawPath = Prefix + u.RawPath
			}
			req = req.Clone(req.Context())
			req.URL = &u
		}
		next.ServeHTTP(w, req)
	})
}
