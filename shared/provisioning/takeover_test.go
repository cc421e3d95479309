package provisioning_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

// A redelivered message must replace a worker that crashed just before. Otherwise only the sweep does, a minute later.
func TestReconcile_ReplacesACrashedWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.change(func(a *agent.Agent) { a.AcquireLease("crashed", time.Now()) })
		if err := w.deliver(); err != nil || w.record().Status != agent.Running {
			t.Errorf("Reconcile = %v and the agent is %s, want nil and running", err, w.record().Status)
		}
	})
}

// lateRouter does not know the agent for a time.
type lateRouter struct {
	provisioning.AgentProber
	until time.Time
}

func (r lateRouter) Probe(ctx context.Context, a agent.Agent) error {
	if time.Now().Before(r.until) {
		return fault.New(fault.Unavailable, "gateway_unhealthy", "The agent does not answer.")
	}
	return r.AgentProber.Probe(ctx, a)
}

// The notifier reports a Ready pod once. If the router learns of it later, no nudge follows.
func TestReconcile_ProbesUntilTheRouterKnowsTheAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.reconciler()
		r.Prober = lateRouter{r.Prober, time.Now().Add(3 * time.Second)}
		if err := r.Reconcile(t.Context(), w.id); err != nil || w.record().Status != agent.Running {
			t.Errorf("Reconcile = %v and the agent is %s, want nil and running", err, w.record().Status)
		}
	})
}
