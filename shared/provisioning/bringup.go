package provisioning

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"agents.example/controlplane/shared/agent"
)

// phase is one step of bringing an agent up. It may extend the RuntimeInput that later phases use, and returns what the
// record of the agent must learn.
type phase struct {
	stage agent.StageName
	do    func(ctx context.Context, a agent.Agent, m *RuntimeInput) (agent.StageStatus, func(*agent.Agent), error)
}

// phases lists the steps in order. Each is safe to repeat.
func (w run) phases() []phase {
	return []phase{
		{agent.StageNamespace, w.apply(agent.StageNamespace)},
		{agent.StagePolicy, w.apply(agent.StagePolicy)},
		{agent.StageIdentity, w.identify},
		{agent.StageSecrets, w.syncSecrets},
		{agent.StageStorage, w.apply(agent.StageStorage)},
		{agent.StageRuntime, w.apply(agent.StageRuntime)},
		{agent.StageRoute, w.apply(agent.StageRoute)},
		{agent.StageReady, w.awaitReady},
	}
}

// bringUp runs the remaining phases. It records the end of each phase and the beginning of the next in one write.
func (w run) bringUp(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	provisioning := a.Status == agent.Provisioning || a.Status == agent.Pending
	todo := w.todo(a, provisioning)
	enter := func(a *agent.Agent, p phase) {
		if provisioning {
			a.BeginStage(p.stage, w.Now())
		}
		w.hold(a, p.stage)
	}
	a, err := w.progress(ctx, a, func(a *agent.Agent) {
		a.Redelivered()
		a.Attempts++
		enter(a, todo[0])
	})
	if err != nil {
		return a, err
	}
	m := &RuntimeInput{}
	for i, p := range todo {
		status, learned, err := p.do(ctx, a, m)
		if err != nil {
			return a, w.failed(ctx, a, p.stage, err)
		}
		a, err = w.progress(ctx, a, func(a *agent.Agent) {
			if learned != nil {
				learned(a)
			}
			a.EndStage(p.stage, status, w.Now())
			if i+1 < len(todo) {
				enter(a, todo[i+1])
			} else {
				a.BecameReady(w.Now())
			}
		})
		if err != nil {
			return a, err
		}
	}
	w.prune(ctx, a)
	return a, nil
}

// prune deletes the configuration objects of former generations. The agent does not depend on that: if it fails, the
// drift check finds the objects and makes a worker apply and prune again.
func (w run) prune(ctx context.Context, a agent.Agent) {
	if err := w.Cluster.Prune(ctx, a); err != nil {
		slog.WarnContext(ctx, "configuration objects of former generations could not be deleted", "agent_id", a.ID,
			"cell", a.Cell, "error", err)
	}
}

// todo lists the phases to run: the unfinished ones and, for an agent that is not being provisioned, those that a
// change can affect. The last phase always runs: only a look at the pod proves the desired state. A second attempt
// applies the other objects of such an agent, too, in case someone deleted one. It leaves out the volume: an empty one
// would hide the loss.
//
// A running agent's namespace does not come first. If it is gone, another phase fails, and no worker makes a new one
// with an empty volume.
func (w run) todo(a agent.Agent, provisioning bool) []phase {
	left := a.Unfinished()
	if !provisioning {
		left = append(left, agent.StageSecrets, agent.StageRuntime)
		if a.Attempts > 0 {
			left = append(left, agent.StagePolicy, agent.StageIdentity, agent.StageRoute)
		}
	}
	var todo []phase
	for _, p := range w.phases() {
		if slices.Contains(left, p.stage) || p.stage == agent.StageReady {
			todo = append(todo, p)
		}
	}
	if !provisioning && todo[0].stage == agent.StageNamespace {
		todo[0], todo[1] = todo[1], todo[0]
	}
	return todo
}

// hold keeps other workers off while a phase writes objects. The last phase only watches.
func (w run) hold(a *agent.Agent, stage agent.StageName) {
	if stage == agent.StageReady {
		a.BeginWatch(w.Now(), w.WatchTimeout)
		return
	}
	a.AcquireLease(w.holder, w.Now())
}

func (w run) apply(stage agent.StageName) func(context.Context, agent.Agent, *RuntimeInput) (agent.StageStatus,
	func(*agent.Agent), error) {
	return func(ctx context.Context, a agent.Agent, m *RuntimeInput) (agent.StageStatus, func(*agent.Agent), error) {
		return agent.StageSucceeded, nil, w.Cluster.Apply(ctx, a, stage, *m)
	}
}

// identify creates the service account and the first credentials.
func (w run) identify(ctx context.Context, a agent.Agent, m *RuntimeInput) (agent.StageStatus, func(*agent.Agent),
	error,
) {
	learned, err := w.fetchCredentials(ctx, a, m)
	if err != nil {
		return "", nil, err
	}
	learned(&a) // the objects carry the hash of the version
	return agent.StageSucceeded, learned, w.Cluster.Apply(ctx, a, agent.StageIdentity, *m)
}

// fetchCredentials reads the credentials, or generates the first ones. It returns what the record must learn.
func (w run) fetchCredentials(ctx context.Context, a agent.Agent, m *RuntimeInput) (learned func(*agent.Agent),
	err error,
) {
	if a.CredentialVersion > 0 {
		m.Credentials, err = w.Secrets.GetCredentials(ctx, a.ID, a.CredentialVersion)
		return func(*agent.Agent) {}, err
	}
	return w.ensureCredentials(ctx, a, m)
}

// awaitReady waits until the pod is Ready and the agent answers on its hostname. After a rotation, the agent must also
// accept the new credentials.
func (w run) awaitReady(ctx context.Context, a agent.Agent, _ *RuntimeInput) (agent.StageStatus, func(*agent.Agent),
	error,
) {
	watch, cancel := context.WithTimeout(ctx, w.watchTime(a))
	defer cancel()
	if err := w.pollReady(watch, a); err != nil {
		return "", nil, err
	}
	probe, learned := w.Prober.Probe, func(*agent.Agent) {}
	if a.Rotating() {
		prove, err := w.proof(watch, a)
		if err != nil {
			return "", nil, err
		}
		probe, learned = prove, func(a *agent.Agent) { a.MarkRotated(w.Now()) }
	}
	for wait := probeInterval; ; wait = min(2*wait, maxProbeInterval) {
		err := probe(watch, a)
		if err == nil {
			return agent.StageSucceeded, learned, nil
		}
		if sleep(watch, wait) != nil {
			return "", nil, err
		}
	}
}

// pollReady looks at the pod until the desired one is Ready, a failure is certain, or ctx ends.
func (w run) pollReady(ctx context.Context, a agent.Agent) error {
	for wait := probeInterval; ; wait = min(2*wait, maxProbeInterval) {
		err := w.Cluster.CheckReady(ctx, a)
		var failure *PodFailure
		if !errors.As(err, &failure) || failure.Permanent || sleep(ctx, wait) != nil {
			return err
		}
	}
}

// minWatch is how long each run watches the pod, even after the deadline: only what a worker sees of the pod ends in
// error.
const minWatch = 10 * time.Second

// watchTime is how long a run watches the pod: until the deadline at most.
func (w run) watchTime(a agent.Agent) time.Duration {
	left := w.watchUntil.Sub(w.Now())
	if !a.Deadline.IsZero() {
		left = min(left, a.Deadline.Sub(w.Now()))
	}
	return max(left, min(minWatch, w.WatchTimeout))
}

// A gateway picks up a new route shortly after the cluster does. There is no event to watch for, so it is polled.
const (
	probeInterval    = 25 * time.Millisecond
	maxProbeInterval = 2 * time.Second
)
