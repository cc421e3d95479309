// Package system defines the routes about the service itself: health, documentation and public keys. It does not
// define any route about customers.
package system

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
)

// Check verifies a dependency that the service requires.
type Check struct {
	// Name identifies the check when it fails.
	Name string
	Run  func(ctx context.Context) error
}

// Health is the response of a healthy service.
type Health struct {
	Status string `json:"status"`
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

// Ready succeeds if every check passes, and otherwise names the first that fails.
func Ready(checks []Check) []function.Route {
	return public([]function.Route{{
		Name: "GetHealthReady", Path: "/health/ready", Summary: "Check whether the service is ready",
		Needs: []function.Need{function.FirestoreRead},
		Handle: function.Handle(func(ctx context.Context, _ function.Empty) (Health, error) {
			return ready(ctx, checks)
		}),
	}})
}

// checkTimeout bounds a check, because a probe must not hang.
const checkTimeout = 3 * time.Second

func ready(ctx context.Context, checks []Check) (Health, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	for _, c := range checks {
		if err := c.Run(ctx); err != nil {
			slog.WarnContext(ctx, "readiness check failed", "check", c.Name, "error", err.Error())
			return Health{}, fault.New(fault.Unavailable, "not_ready",
				"The readiness check %q failed. Retry in a few seconds.", c.Name).
				WithMeta(map[string]any{"check": c.Name}).WithCause(err)
		}
	}
	return Health{"ok"}, nil
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
