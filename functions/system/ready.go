package system

import (
	"context"
	"log/slog"
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

// Ready succeeds if every check passes, and otherwise names the first that fails. All calls of two seconds share one
// run of the checks, because anyone may call.
func Ready(checks []Check) []function.Route {
	shared := &readiness{checks: checks, turn: make(chan struct{}, 1)}
	return public([]function.Route{{
		Name: "GetHealthReady", Path: "/health/ready", Summary: "Check whether the service is ready",
		Needs: []function.Need{function.FirestoreRead},
		Handle: function.Handle(func(ctx context.Context, _ function.Empty) (Health, error) {
			return Health{Status: "ok"}, shared.get(ctx)
		}),
	}})
}

const (
	// checkTimeout bounds a run of the checks, because a probe must not hang.
	checkTimeout = 3 * time.Second
	// readyFor is how long calls share the outcome of a run.
	readyFor = 2 * time.Second
)

// readiness runs checks and shares the outcome.
type readiness struct {
	checks []Check
	// turn is full during a run, so that concurrent calls wait for its outcome. It guards the other fields.
	turn chan struct{}
	last error     // the outcome of the last run
	at   time.Time // the end of the last run
}

// get returns the outcome of a run that ended less than readyFor ago. A run continues if its caller disconnects,
// because other callers wait for it.
func (r *readiness) get(ctx context.Context) error {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	if r.at.IsZero() || time.Since(r.at) >= readyFor {
		run, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
		defer cancel()
		r.last = r.run(run)
		r.at = time.Now()
	}
	return r.last
}

func (r *readiness) run(ctx context.Context) error {
	for _, c := range r.checks {
		if err := c.Run(ctx); err != nil {
			slog.WarnContext(ctx, "readiness check failed", "check", c.Name, "error", err.Error())
			return fault.New(fault.Unavailable, "not_ready",
				"The readiness check %q failed. Retry in a few seconds.", c.Name).
				WithMeta(map[string]any{"check": c.Name}).WithCause(err)
		}
	}
	return nil
}
