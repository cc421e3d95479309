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

// Reconciler brings agents to their desired state. Any number of processes may run it concurrently, any number of
// times.
type Reconciler struct {
	Records agent.WorkerStore
	Cluster Cluster
	Secrets credential.SecretStore
	Prober  AgentProber
	// Now is the clock.
	Now func() time.Time
	// WatchTimeout bounds the watch of one run for readiness or for the end of a deletion. It must be shorter than the
	// queue's deadline.
	WatchTimeout time.Duration
}

// Reconcile reads the present record of an agent and brings its objects to that state. It returns nil when no work is
// left, and an error that fault reports as retryable if the queue must deliver the work again.
func (r *Reconciler) Reconcile(ctx context.Context, agentID string) error {
	holder := uuid.NewString()
	for {
		a, err := r.load(ctx, agentID, holder)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if !working(a) {
			return nil
		}
		a, err = run{Reconciler: r, holder: holder}.dispatch(ctx, a)
		again := errors.Is(err, agent.ErrSuperseded) || errors.Is(err, errFinished) ||
			err == nil && a.OperationsDue() // operations were added during the run
		if !again {
			return err
		}
	}
}

// load reads the record. If another run holds it, load waits once for the end of that lease, which a live run renews.
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
		return a, fault.New(fault.Unavailable, "agent_busy", "Another worker is processing the agent. Retry.")
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

// run is one worker's run for one agent.
type run struct {
	*Reconciler
	holder string
}

// working reports whether a worker has work to do for an agent.
func working(a agent.Agent) bool { return !a.Converged() || a.OperationsDue() }

// errFinished ends a run whose work another run has finished.
var errFinished = errors.New("another worker finished the work")

// progress records progress in applying the desired state. If another run of the same generation has applied it in
// between, progress writes nothing and returns errFinished: what this run saw is older.
func (w run) progress(ctx context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	finished := false
	latest, err := w.Records.Update(ctx, a, func(present *agent.Agent) {
		if finished = a.ApplyDue() && !present.ApplyDue(); !finished {
			change(present)
		}
	})
	if err == nil && finished {
		err = errFinished
	}
	return latest, err
}

// dispatch does the work of the record. It binds stored secrets to the desired state, applies that state, and destroys
// the secret versions that are left over. It returns the resulting record.
func (w run) dispatch(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	if a.Status == agent.Deleting {
		return a, w.tearDown(ctx, a)
	}
	a, err := w.bind(ctx, a)
	if err != nil {
		return a, err
	}
	if !a.Converged() || len(a.OperationsAt(secret.Sync, secret.Rollout)) > 0 {
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

// scaleDown removes the pod and leaves everything else. It also writes secrets, for the next start.
func (w run) scaleDown(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	a, err := w.progress(ctx, a, func(a *agent.Agent) { a.Attempts++; a.AcquireLease(w.holder, w.Now()) })
	if err != nil {
		return a, err
	}
	err = w.Cluster.Apply(ctx, a, agent.StageRuntime, RuntimeInput{})
	if err != nil && fault.Code(err) != CodeNamespaceMissing {
		return a, w.failed(ctx, a, agent.StageRuntime, err)
	}
	if err = w.syncStopped(ctx, a); err != nil {
		return a, w.failed(ctx, a, agent.StageSecrets, err)
	}
	return w.progress(ctx, a, func(a *agent.Agent) {
		a.MarkSecretsSynced(w.Now())
		a.MarkSecretsWaiting(w.Now())
		a.MarkObserved(w.Now())
	})
}

// tearDown deletes all objects of an agent. It ends only once they are observed gone.
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
		// A value that a request adds after the secrets are destroyed would stay forever.
		func() error { return sleep(watch, a.StoringUntil.Sub(w.Now())) },
		func() error { return w.Secrets.Destroy(watch, a.ID, a.SecretKeys()) },
	} {
		if err := step(); err != nil {
			return w.failed(ctx, a, "", err)
		}
	}
	return w.Records.Remove(ctx, a)
}
