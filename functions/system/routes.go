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
	Status string `json:"status" jsonschema:"Always ok."`
}

// Example implements function.Exampler.
func (Health) Example() any { return Health{"ok"} }

// Live succeeds as long as the process serves.
func Live() []function.Route {
	routes := []function.Route{
		{Name: "GetHealth", Path: "/health", Summary: "Check whether the service answers"},
		{Name: "GetHealthLive", Path: "/health/live", Summary: "Check whether the process serves requests"},
	}
	for i := range routes {
		routes[i].Handle = function.Handle(func(context.Context, function.Empty) (Health, error) {
			return Health{"ok"},
				nil
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
