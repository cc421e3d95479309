// Package system defines the routes about the service itself: health, documentation and public keys. It does not
// define any route about customers.
package system

import (
	"context"
	"net/http"

	"agents.example/controlplane/shared/function"
)

// Health is the response of a healthy service.
type Health struct {
	Status   string `json:"status" jsonschema:"Always ok."`
	Revision string `json:"revision,omitempty" jsonschema:"The Cloud Run revision that answers."`
}

// Example implements function.Exampler.
func (Health) Example() any { return Health{Status: "ok", Revision: "prod-routes-20260102-030405-1"} }

// Live succeeds as long as the process serves, and names its revision.
func Live(revision string) []function.Route {
	routes := []function.Route{
		{Name: "GetHealth", Path: "/health", Summary: "Check whether the service answers"},
		{Name: "GetHealthLive", Path: "/health/live", Summary: "Check whether the process serves requests"},
	}
	for i := range routes {
		routes[i].Handle = function.Handle(func(context.Context, function.Empty) (Health, error) {
			return Health{Status: "ok", Revision: revision}, nil
		})
	}
	return public(routes)
}

// public serves routes at their own path and, as separate functions, below the API's prefix.
func public(routes []function.Route) []function.Route {
	var all []function.Route
	for _, r := range routes {
		r.Method, r.Access, r.Status = http.MethodGet, function.Public, http.StatusOK
		prefixed := r
		prefixed.Name, prefixed.Path = r.Name+"V1", function.Prefix+r.Path
		all = append(all, r, prefixed)
	}
	return all
}
