package function

import (
	"context"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"agents.example/controlplane/shared/fault"
)

// Prefix begins the canonical path of every API route.
const Prefix = "/api/v1"

// Served is a function that is ready to serve: its handler holds its dependencies.
type Served struct {
	Method  string
	Path    string
	Handler http.Handler
	// Home marks the page for people who open the address of the API in a browser.
	Home bool
}

// Served returns the route, ready to serve.
func (r Route) Served(g Guard) Served {
	return Served{Method: r.Method, Path: r.Path, Handler: r.Handler(g), Home: r.Home}
}

// maintenanceWait is how long clients should wait during maintenance. Package client repeats no call that would have to
// wait longer than a minute, so its call fails immediately and shows the reason.
const maintenanceWait = 2 * time.Minute

// UnderMaintenance returns a function that refuses every request before it reads the request's caller or body.
func UnderMaintenance(name, method, path string) Served {
	refusal := fault.New(fault.Unavailable, "maintenance",
		"The service is closed for maintenance. Running agents are not affected. Retry in a few minutes.")
	refusal.RetryAfter = maintenanceWait
	return Served{Method: method, Path: path, Handler: instrument(name, nil,
		func(w http.ResponseWriter, req *http.Request) (context.Context, error) {
			forbidCaching(w.Header())
			return req.Context(), refusal
		})}
}

// Elsewhere returns a function that another service has, for a service that answers all paths.
func Elsewhere(name, method, path string) Served {
	refusal := fault.New(fault.NotFound, "service_not_reachable",
		"This call has its own service, which is reachable behind a domain only. Ask the operator to configure one.")
	return Served{Method: method, Path: path, Handler: instrument(name, nil,
		func(w http.ResponseWriter, req *http.Request) (context.Context, error) {
			forbidCaching(w.Header())
			return req.Context(), refusal
		})}
}

// Mux serves several functions at their canonical paths. It also serves /agents... without Prefix, and answers unknown
// paths with 404 and unknown methods with 405.
func Mux(functions []Served) http.Handler { return Guard{}.Mux(functions) }

// Mux serves several functions as the function Mux does. The lines about paths and methods that do not exist are within
// the guard's budget of lines.
func (g Guard) Mux(functions []Served) http.Handler {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for _, f := range functions {
		mux.Handle(f.Method+" "+f.Path, f.Handler)
		methods[f.Path] = append(methods[f.Path], f.Method)
		if f.Method == http.MethodGet { // the mux serves it, too
			methods[f.Path] = append(methods[f.Path], http.MethodHead)
		}
	}
	for p, allowed := range methods {
		slices.Sort(allowed)
		mux.Handle(p, instrument("MethodNotAllowed", g.Lines,
			func(w http.ResponseWriter, req *http.Request) (context.Context, error) {
				w.Header().Set("Allow", strings.Join(allowed, ", "))
				return req.Context(), fault.New(fault.MethodNotAllowed, "method_not_allowed",
					"The path does not support this method. Use %s.", strings.Join(allowed, " or "))
			}))
	}
	missing := instrument("NotFound", g.Lines, func(_ http.ResponseWriter, req *http.Request) (context.Context, error) {
		return req.Context(), fault.New(fault.NotFound, "not_found",
			"This path does not exist. The API is described at /openapi.json.")
	})
	if _, exists := methods["/"]; !exists {
		mux.Handle("/", missing)
	}
	for _, f := range functions {
		if f.Home {
			mux.Handle("GET /{$}", redirect(f.Path, missing))
			mux.Handle("GET "+f.Path+"/{$}", redirect(f.Path, missing))
		}
	}
	return rewriteShortPaths(mux, missing)
}

// redirect sends browsers to a page. For programs, the path does not exist.
func redirect(page string, missing http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Add("Vary", "Accept")
		if !strings.Contains(req.Header.Get("Accept"), "text/html") {
			missing.ServeHTTP(w, req)
			return
		}
		http.Redirect(w, req, page, http.StatusFound)
	})
}

// rewriteShortPaths serves /agents... as /api/v1/agents.... It rewrites the path instead of redirecting, because
// clients drop bodies and headers on redirects. For the same reason, a path with empty or dotted segments is not found;
// http.ServeMux would redirect to the cleaned path.
func rewriteShortPaths(next, missing http.Handler) http.Handler {
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
