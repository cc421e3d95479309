package provisioning

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

// Reconciler brings agents to their desired state. It may run any number of times, in any number of processes at once.
type Reconciler struct {
	Records agent.WorkerStore
	Cluster Cluster
	Secrets credential.SecretStore
	Prober  AgentProber
	// Now is the clock.
	Now func() time.Time
	// WatchTimeout is how long one run watches for readiness, or for a deletion to be observed. It must fit the queue's
	// deadline.
	WatchTimeout time.Duration
}

// Reconcile looks at the present record of an agent and moves the world toward it. Nil says that there is nothing left
// to do; an error that fault knows as retryable, that the queue should deliver the work again.
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
		// A run that lost to a newer generation may have written an older state after the winner: it brings about the
		// new state itself, even where the record says that another run has.
		if a.Converged() && !superseded && !a.OperationsDue() {
			return nil
		}
		a, err = run{Reconciler: r, holder: holder}.dispatch(ctx, a, superseded)
		switch {
		case errors.Is(err, agent.ErrSuperseded):
			superseded = true
		case err != nil || !a.OperationsDue():
			return err
		default:
			superseded = false // operations that came meanwhile
		}
	}
}

// load reads the record. When another run holds it, it waits once for that run's lease to end: a run that is alive
// renews it.
func (r *Reconciler) load(ctx context.Context, agentID, holder string) (agent.Agent, error) {
	a, err := r.Records.Load(ctx, agentID)
	if err != nil || !working(a) || !a.Leased(holder, r.Now()) {
		return a, err
	}
	if err := sleep(ctx, a.Lease.Until.Sub(r.Now())); err != nil {
		return a, err
	}
	a, err = r.Records.Load(ctx, agentID)
	if err == nil && working(a) && a.Leased(holder, r.Now()) {
		return a, fault.New(fault.Unavailable, "agent_busy", "Another worker is at this agent.")
	}
	return a, err
}

// sleep waits, unless ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// run is one worker's turn at one agent.
type run struct {
	*Reconciler
	holder string
}

// working reports whether there is something to do for an agent.
func working(a agent.Agent) bool { return !a.Converged() || a.OperationsDue() }

// dispatch does what the record asks for: first what was asked for since becomes part of the desired state, then that
// is brought about, and then what it leaves behind is destroyed. It returns the record as it is then.
func (w run) dispatch(ctx context.Context, a agent.Agent, superseded bool) (agent.Agent, error) {
	if a.Status == agent.Deleting {
		return a, w.tearDown(ctx, a)
	}
	a, err := w.bind(ctx, a)
	if err != nil {
		return a, err
	}
	if !a.Converged() || superseded || len(a.OperationsAt(secret.Sync, secret.Rollout)) > 0 {
		bring := w.scaleDown
		if a.WantsPod() {
			bring = w.bringUp
		}
		if a, err = bring(ctx, a); err != nil {
			return a, err
		}
	}
	return w.finish(ctx, a)
}

// scaleDown takes the pod away and leaves everything else. Secrets are written nevertheless, for the next start.
func (w run) scaleDown(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	a, err := w.Records.Update(ctx, a, func(a *agent.Agent) { a.Attempts++; a.AcquireLease(w.holder, w.Now()) })
	if err != nil {
		return a, err
	}
	err = w.Cluster.Apply(ctx, a, agent.StageRuntime, RuntimeInput{})
	if err != nil && fault.Code(err) != CodeNamespaceMissing {
		return a, w.failed(ctx, a, agent.StageRuntime, err)
	}
	if err = w.store(ctx, a); err != nil {
		return a, w.failed(ctx, a, agent.StageSecrets, err)
	}
	return w.Records.Update(ctx, a, func(a *agent.Agent) {
		a.MarkSecretsSynced(w.Now())
		a.MarkSecretsWaiting(w.Now())
		a.MarkObserved(w.Now())
	})
}

// tearDown removes everything of an agent and ends only when all of it is observed gone.
func (w run) tearDown(ctx context.Context, a agent.Agent) error {
	a, err := w.Records.Update(ctx, a, func(a *agent.Agent) { a.Attempts++; a.ReleaseLease(w.Now(), w.WatchTimeout) })
	if err != nil {
		return err
	}
	watch, cancel := context.WithTimeout(ctx, w.WatchTimeout)
	defer cancel()
	for _, step := range []func() error{
		func() error { return w.Cluster.Delete(watch, a) },
		func() error { return w.Cluster.AwaitGone(watch, a) },
		// What a request adds after the secrets are destroyed would stay for ever.
		func() error { return sleep(watch, a.StoringUntil.Sub(w.Now())) },
		func() error { return w.Secrets.Destroy(watch, a.ID) },
	} {
		if err := step(); err != nil {
			return w.failed(ctx, a, "", err)
		}
	}
	return w.Records.Remove(ctx, a)
}
