package provisioning

import (
	"context"
	"errors"
	"log/slog"
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
	// Agents wakes agents. It nudges no worker: whoever wakes an agent reconciles it.
	Agents  agent.Store
	Cluster Cluster
	Secrets credential.SecretStore
	Prober  AgentProber
	// Volumes takes the snapshots of agents; nil takes none.
	Volumes Volumes
	// Quiescer makes volumes quiet; nil has no way to run the programs of images.
	Quiescer Quiescer
	// Readers read snapshots for exports; nil has none.
	Readers Readers
	// Front makes the calls of schedules; nil makes none.
	Front CallingFront
	// Cleanup limits the destruction of versions; nil means no limit.
	Cleanup CleanupBudget
	// Logs keeps the logs of containers that have ended; nil keeps none.
	Logs LogKeeper
	// Now is the clock.
	Now func() time.Time
}

const (
	// PushTimeout bounds one call of Reconcile, but for quietTime. The queue's push window keeps up only while pushes
	// are short: one that waits for a pod would delay the work of all other agents.
	PushTimeout = 9 * time.Second
	// recordTime is the end of PushTimeout, in which a run only records what happened.
	recordTime = 2 * time.Second
)

// Reconcile reads the present record of an agent, handles what is due of its schedules and snapshots, and brings its
// objects to that state. It looks at the agent once and does not wait: while the pod is not Ready, or a deletion has
// not ended, it records when a worker looks again and returns nil. It also returns nil when no work is left or when the
// work is due later. It returns an error that fault reports as retryable if the queue must deliver the work again.
func (r *Reconciler) Reconcile(ctx context.Context, agentID string) error {
	return r.reconcile(ctx, agentID, func(context.Context) error { return nil })
}

// reconcile is Reconcile after something else, which takes from its time.
func (r *Reconciler) reconcile(ctx context.Context, agentID string, first func(context.Context) error) error {
	w := &run{Reconciler: r, holder: uuid.NewString(), ends: time.Now().Add(PushTimeout)}
	ctx, cancel := context.WithDeadline(ctx, w.ends.Add(-recordTime))
	defer cancel()
	if err := first(ctx); err != nil {
		return err
	}
	for {
		if err := ctx.Err(); err != nil {
			return fault.From(err) // newer states came faster than this call could apply them
		}
		a, err := r.load(ctx, agentID, w.holder)
		if fault.Is(err, fault.NotFound) || err == nil && isForeign(ctx, a) {
			return nil
		}
		if err != nil {
			return err
		}
		if a.CallsDue(r.Now()) && !w.called {
			w.called = true
			if a, err = w.runSchedules(ctx, a); errors.Is(err, agent.ErrSuperseded) {
				continue
			}
			if err != nil {
				return err
			}
		}
		if a.SnapshotsDue(r.Now()) && !w.snapped {
			w.snapped = true
			if a, err = w.runSnapshots(ctx, a); err == nil && !ended(ctx) {
				a, err = w.runReader(ctx, a)
			}
			if errors.Is(err, agent.ErrSuperseded) {
				continue
			}
			if err != nil {
				return err
			}
		}
		if !working(a) || r.Now().Before(a.RetryAt) || a.Leased(w.holder, r.Now()) {
			return nil // the sweep nudges the agent when its work is due
		}
		w.begun, w.unrecorded = false, nil
		a, err = w.dispatch(ctx, a)
		held := a.StoppedFor != "" || a.Returns() // operations wait for the pod
		added := !held && addedDuring(a) || a.CallsDue(r.Now()) && !w.called || a.SnapshotsDue(r.Now()) && !w.snapped
		again := errors.Is(err, agent.ErrSuperseded) || errors.Is(err, errFinished) || err == nil && added
		if !again {
			return err
		}
	}
}

// isForeign reports whether an agent is left as it is, because only another release knows its status.
func isForeign(ctx context.Context, a agent.Agent) bool {
	if a.Status.Known() {
		return false
	}
	slog.WarnContext(ctx, "an agent in a status of another release is left as it is", "agent_id", a.ID, "status",
		a.Status)
	return true
}

// addedDuring reports whether operations were added during a run that ended in a. While an agent waits for its pod,
// operations wait with it.
func addedDuring(a agent.Agent) bool {
	if a.Waits() {
		return len(a.OperationsAt(secret.Bind)) > 0
	}
	return len(a.OperationsAt(secret.Bind, secret.Sync, secret.Rollout, secret.Destroy, secret.Complete)) > 0
}

// load reads the record. While another run holds it, load reads it again until that run ends, its lease ends, or ctx
// does: the nudge may report what the other run has just missed.
func (r *Reconciler) load(ctx context.Context, agentID, holder string) (agent.Agent, error) {
	for pause := minLeasePoll; ; pause = min(2*pause, maxLeasePoll) {
		a, err := r.Records.Load(ctx, agentID)
		if err != nil || !working(a) || !a.Leased(holder, r.Now()) {
			return a, err
		}
		if sleep(ctx, min(pause, a.Lease.Until.Sub(r.Now()))) != nil {
			return a, nil //nolint:nilerr // another worker is processing the agent
		}
	}
}

// How often a run reads a record that another run holds.
const (
	minLeasePoll = 100 * time.Millisecond
	maxLeasePoll = 2 * time.Second
)

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

// working reports whether a worker has work to do for an agent.
func working(a agent.Agent) bool { return !a.Converged() || a.OperationsDue() || a.PruneDue() }

// dispatch does the work of the record. It binds stored secrets to the desired state, applies that state, and destroys
// the secret versions that are left over. It returns the resulting record.
func (w *run) dispatch(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	if a.Status == agent.Deleting {
		return a, w.tearDown(ctx, a)
	}
	a, err := w.bind(ctx, a)
	if err != nil {
		return a, err
	}
	if a.Returns() {
		return w.awaitReturn(ctx, a)
	}
	if a.ApplyDue() {
		if a.Arrives() && !a.Waits() {
			if err := w.arrive(ctx, a); err != nil {
				return a, w.failed(ctx, a, agent.StageNamespace, err)
			}
		}
		bring := w.scaleDown
		switch {
		case a.WantsPod() && !a.RunsPod():
			bring = w.hold
		case a.WantsPod() && a.Waits():
			bring = w.look
		case a.WantsPod():
			bring = w.bringUp
		}
		if a, err = bring(ctx, a); err != nil || a.Waits() {
			return a, err
		}
	}
	return w.finish(ctx, a)
}

// scaleDown removes the pod and leaves everything else. The route then says who starts the agent. A worker of a former
// generation fails at the workload and does not get there. It also writes secrets, for the next start.
func (w *run) scaleDown(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	a, err := w.begin(ctx, a, func(*agent.Agent) {})
	if err != nil {
		return a, err
	}
	if err := w.checkDoor(ctx, a); err != nil {
		return a, err
	}
	w.keepLast(ctx, a)
	for _, stage := range []agent.StageName{agent.StageRuntime, agent.StageRoute} {
		err = w.Cluster.Apply(ctx, a, stage, RuntimeInput{})
		if err != nil && fault.Code(err) != CodeNamespaceMissing {
			return a, w.failed(ctx, a, stage, err)
		}
	}
	if err = w.syncStopped(ctx, a); err != nil {
		return a, w.failed(ctx, a, agent.StageSecrets, err)
	}
	last, cancel := w.record(ctx)
	defer cancel()
	return w.progress(last, a, func(a *agent.Agent) {
		a.MarkSecretsSynced(w.Now())
		a.MarkSecretsWaiting(w.Now())
		a.MarkObserved(w.Now())
	})
}

// tearDown deletes all objects of an agent. The record is removed only once they are observed gone. A deletion that
// takes longer is no failure: the message is acknowledged, and the record says when a worker looks again.
func (w *run) tearDown(ctx context.Context, a agent.Agent) error {
	if err := w.Cluster.Delete(ctx, a); err != nil {
		return w.failed(ctx, a, "", err)
	}
	w.learn(agent.ClusterDeletionRequested{At: w.Now()})
	gone, err := w.Cluster.CheckGone(ctx, a)
	if err != nil {
		return w.failed(ctx, a, "", err)
	}
	left, err := w.tearDownMove(ctx, a)
	if err != nil {
		return w.failed(ctx, a, "", err)
	}
	gone = gone.And(left)
	w.learn(agent.ClusterDeletionSeen{
		NamespaceGone: gone.Namespace, VolumeGone: gone.Volume, SnapshotsGone: gone.Snapshots, At: w.Now(),
	})
	switch {
	case !gone.All():
		return w.awaitDeletion(ctx, a, time.Time{})
	case w.Now().Before(a.StoringUntil):
		// A value that a request adds after the secrets are destroyed would stay forever.
		return w.awaitDeletion(ctx, a, a.StoringUntil)
	}
	w.learn(agent.SecretsDeletionRequested{At: w.Now()})
	if err := w.Secrets.Destroy(ctx, a.ID, a.SecretKeys()); err != nil {
		return w.failed(ctx, a, "", err)
	}
	w.learn(agent.SecretsGone{At: w.Now()})
	seen := a
	seen.Learn(w.unrecorded...)
	return w.Records.Remove(ctx, a, seen.Deletion)
}

// awaitDeletion records when a worker looks at a deletion again.
func (w *run) awaitDeletion(ctx context.Context, a agent.Agent, latest time.Time) error {
	last, cancel := w.record(ctx)
	defer cancel()
	_, err := w.progress(last, a, func(a *agent.Agent) { a.AwaitDeletion(latest, w.Now()) })
	return err
}
