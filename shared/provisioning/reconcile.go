package provisioning

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
)

// Reconciler brings agents to their desired state. It may run any number of times, in any number of processes at once.
type Reconciler struct {
	Records agent.Records
	Cluster Cluster
	Vault   credential.Vault
	Gateway Gateway
	// Now is the clock.
	Now func() time.Time
	// Patience is how long one run watches for readiness, or for a deletion to be observed. It must fit the queue's deadline.
	Patience time.Duration
}

// Reconcile looks at the present record of an agent and moves the world toward it. Nil says that there is nothing left to do;
// an error that fault knows as retryable, that the queue should deliver the work again.
func (r *Reconciler) Reconcile(ctx context.Context, agentID string) error {
	holder := uuid.NewString()
	for superseded := false; ; {
		a, err := r.load(ctx, agentID, holder)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		// A run that lost to a newer generation may have written an older state after the winner: it brings about the new state itself,
		// even where the record says that another run has.
		if a.Converged() && !superseded {
			return nil
		}
		err = run{Reconciler: r, holder: holder}.dispatch(ctx, a)
		if !errors.Is(err, agent.ErrSuperseded) {
			return err
		}
		superseded = true
	}
}

// load reads the record. When another run holds it, it waits once for that run's lease to end: a run that is alive renews it.
func (r *Reconciler) load(ctx context.Context, agentID, holder string) (agent.Agent, error) {
	a, err := r.Records.Load(ctx, agentID)
	if err != nil || a.Converged() || !a.Leased(holder, r.Now()) {
		return a, err
	}
	select {
	case <-ctx.Done():
		return a, ctx.Err()
	case <-time.After(a.Lease.Until.Sub(r.Now())):
	}
	a, err = r.Records.Load(ctx, agentID)
	if err == nil && !a.Converged() && a.Leased(holder, r.Now()) {
		return a, fault.New(fault.Unavailable, "agent_busy", "Another worker is at this agent.")
	}
	return a, err
}

// run is one worker's turn at one agent.
type run struct {
	*Reconciler
	holder string
}

func (w run) dispatch(ctx context.Context, a agent.Agent) error {
	switch {
	case a.Status == agent.Deleting:
		return w.tearDown(ctx, a)
	case a.Runs():
		return w.bringUp(ctx, a)
	default:
		return w.scaleDown(ctx, a)
	}
}

// scaleDown takes the pod away and leaves everything else.
func (w run) scaleDown(ctx context.Context, a agent.Agent) error {
	a, err := w.Records.Record(ctx, a, func(a *agent.Agent) { a.Attempts++; a.Hold(w.holder, w.Now()) })
	if err != nil {
		return err
	}
	err = w.Cluster.Apply(ctx, a, agent.StageRuntime, Material{})
	if err != nil && fault.Code(err) != CodeNamespaceMissing {
		return w.failed(ctx, a, agent.StageRuntime, err)
	}
	_, err = w.Records.Record(ctx, a, func(a *agent.Agent) { a.Settle(w.Now()) })
	return err
}

// tearDown removes everything of an agent and ends only when all of it is observed gone.
func (w run) tearDown(ctx context.Context, a agent.Agent) error {
	a, err := w.Records.Record(ctx, a, func(a *agent.Agent) { a.Attempts++; a.Release(w.Now(), w.Patience) })
	if err != nil {
		return err
	}
	watch, cancel := context.WithTimeout(ctx, w.Patience)
	defer cancel()
	for _, step := range []func() error{
		func() error { return w.Cluster.Delete(watch, a) },
		func() error { return w.Cluster.AwaitGone(watch, a) },
		func() error { return w.Vault.Destroy(watch, a.ID) },
	} {
		if err := step(); err != nil {
			return w.failed(ctx, a, "", err)
		}
	}
	return w.Records.Remove(ctx, a)
}
