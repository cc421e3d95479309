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
	// WatchTimeout bounds how long one call of Reconcile watches pods. All its work ends agent.NudgeGrace later, which
	// must be before the queue's deadline.
	WatchTimeout time.Duration
}

// Reconcile reads the present record of an agent and brings its objects to that state. It returns nil when no work is
// left or when the work is due later, and an error that fault reports as retryable if the queue must deliver the work
// again.
func (r *Reconciler) Reconcile(ctx context.Context, agentID string) error {
	ctx, cancel := context.WithTimeout(ctx, r.WatchTimeout+agent.NudgeGrace)
	defer cancel()
	w := run{Reconciler: r, holder: uuid.NewString(), watchUntil: r.Now().Add(r.WatchTimeout)}
	for {
		if err := ctx.Err(); err != nil {
			return fault.From(err) // newer states came faster than this call could apply them
		}
		a, err := r.load(ctx, agentID, w.holder)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if !working(a) || r.Now().Before(a.RetryAt) { // the sweep nudges the agent then
			return nil
		}
		a, err = w.dispatch(ctx, a)
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
	// watchUntil is when the watches of this call of Reconcile end.
	watchUntil time.Time
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

// maxDeletionWatch is how long one run watches a deletion. It is long enough to wait for the end of secret.StoringTime,
// and short because no other run takes over from a crashed one in that time.
const maxDeletionWatch = secret.StoringTime + 5*time.Second

// tearDown deletes all objects of an agent. The record is removed only once they are observed gone. A deletion that
// takes longer is no failure: the message is acknowledged, and the record says when a worker looks again.
func (w run) tearDown(ctx context.Context, a agent.Agent) error {
	limit, mine := min(w.WatchTimeout, maxDeletionWatch), false
	a, err := w.Records.Update(ctx, a, func(a *agent.Agent) { mine = a.BeginDeletion(w.Now(), limit+recordTimeout) })
	if err != nil || !mine {
		return err
	}
	watch, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, step := range []struct {
		do    func() error
		waits bool
	}{
		{do: func() error { return w.Cluster.Delete(watch, a) }},
		{do: func() error { return w.pollGone(watch, a) }, waits: true},
		// A value that a request adds after the secrets are destroyed would stay forever.
		{do: func() error { return sleep(watch, a.StoringUntil.Sub(w.Now())) }, waits: true},
		{do: func() error { return w.Secrets.Destroy(watch, a.ID, a.SecretKeys()) }},
	} {
		err := step.do()
		if err != nil && step.waits && watch.Err() != nil {
			return w.lookLater(ctx, a)
		}
		if err != nil {
			return w.failed(ctx, a, "", err)
		}
	}
	return w.Records.Remove(ctx, a)
}

// pollGone looks until the agent's objects are gone, or ctx ends.
func (w run) pollGone(ctx context.Context, a agent.Agent) error {
	for wait := probeInterval; ; wait = min(2*wait, maxProbeInterval) {
		gone, err := w.Cluster.CheckGone(ctx, a)
		if err != nil || gone {
			return err
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// lookLater records when a worker looks at a deletion again.
func (w run) lookLater(ctx context.Context, a agent.Agent) error {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	_, err := w.Records.Update(last, a, func(a *agent.Agent) { a.AwaitDeletion(w.Now()) })
	return err
}
