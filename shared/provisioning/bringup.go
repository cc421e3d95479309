package provisioning

import (
	"context"
	"errors"
	"slices"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
)

// phase is one step of bringing an agent up. It may enrich the agent and the material that later phases build from.
type phase struct {
	stage agent.StageName
	do    func(ctx context.Context, a agent.Agent, m *RuntimeInput) (agent.StageStatus, func(*agent.Agent), error)
}

// phases lists the steps in order. Every one is safe to repeat.
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

// bringUp works through the phases that are left, and records each: its end and the beginning of the next in one write.
func (w run) bringUp(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	provisioning := a.Status == agent.Provisioning || a.Status == agent.Pending
	todo := w.todo(a, provisioning)
	enter := func(a *agent.Agent, p phase) {
		if provisioning {
			a.BeginStage(p.stage, w.Now())
		}
		w.hold(a, p.stage)
	}
	a, err := w.Records.Update(ctx, a, func(a *agent.Agent) {
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
		a, err = w.Records.Update(ctx, a, func(a *agent.Agent) {
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
	return a, nil
}

// todo lists the phases that are left. Those that a change of a running agent can touch are done again; its other
// stages are done.
func (w run) todo(a agent.Agent, provisioning bool) []phase {
	left := a.Unfinished()
	var todo []phase
	for _, p := range w.phases() {
		changing := p.stage == agent.StageSecrets || p.stage == agent.StageRuntime || p.stage == agent.StageReady
		if slices.Contains(left, p.stage) || (changing && !provisioning) {
			todo = append(todo, p)
		}
	}
	return todo
}

// hold keeps other workers off while objects are written. The last stage is a watch that may take minutes: it does
// without the lease, so that a crash of this process costs no waiting, and two watches harm nobody.
func (w run) hold(a *agent.Agent, stage agent.StageName) {
	if stage == agent.StageReady {
		a.ReleaseLease(w.Now(), w.WatchTimeout+agent.NudgeGrace)
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

// identify makes the service account, and the first credentials.
func (w run) identify(ctx context.Context, a agent.Agent, m *RuntimeInput) (agent.StageStatus, func(*agent.Agent),
	error,
) {
	version, err := w.fetchCredentials(ctx, a, m)
	if err != nil {
		return "", nil, err
	}
	learned := func(a *agent.Agent) { a.CredentialVersion = version }
	return agent.StageSucceeded, learned, w.Cluster.Apply(ctx, a, agent.StageIdentity, *m)
}

func (w run) fetchCredentials(ctx context.Context, a agent.Agent, m *RuntimeInput) (version int64, err error) {
	if a.CredentialVersion > 0 {
		m.Credentials, err = w.Secrets.GetCredentials(ctx, a.ID, a.CredentialVersion)
		return a.CredentialVersion, err
	}
	m.Credentials, version, err = w.Secrets.EnsureCredentials(ctx, a.ID, agent.DashboardUsername)
	return version, err
}

// awaitReady waits until the pod is Ready and the gateway answers on the agent's hostname, with the credentials that it
// is to have.
func (w run) awaitReady(ctx context.Context, a agent.Agent, _ *RuntimeInput) (agent.StageStatus, func(*agent.Agent),
	error,
) {
	watch, cancel := context.WithTimeout(ctx, w.WatchTimeout)
	defer cancel()
	if err := w.Cluster.AwaitReady(watch, a); err != nil {
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

// A gateway learns of a new route a moment after the cluster does; there is nothing to watch on the way.
const (
	probeInterval    = 25 * time.Millisecond
	maxProbeInterval = 2 * time.Second
)

// CodeNamespaceMissing is the code of an error that says that the agent's namespace is not there.
const CodeNamespaceMissing = "namespace_missing"

// failed records what went wrong and decides whether the work is given up or delivered again.
func (w run) failed(ctx context.Context, a agent.Agent, stage agent.StageName, cause error) error {
	if errors.Is(cause, agent.ErrSuperseded) {
		return cause
	}
	f, permanent := describe(stage, cause)
	// The run's own time may be what ran out: the record is written all the same.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	// What was asked to be taken away is tried for ever: giving up would leave it behind.
	permanent = permanent && a.WantsPod()
	a, err := w.Records.Update(last, a, func(a *agent.Agent) {
		if permanent {
			a.GiveUp(f, w.Now())
			return
		}
		a.Retry(f, w.Now())
		if f.Code == CodeNamespaceMissing {
			a.ForgetStages()
		}
	})
	switch {
	case err != nil:
		return errors.Join(err, cause)
	case permanent && !a.Converged():
		return agent.ErrSuperseded // by the former state, which is what is desired again
	case permanent:
		return nil
	default:
		return fault.New(fault.Unavailable, "provisioning_failed", "%s", f.Message).WithCause(cause)
	}
}

const recordTimeout = 10 * time.Second

// describe turns an error into what a client is told.
func describe(stage agent.StageName, cause error) (f agent.Failure, permanent bool) {
	var pod *PodFailure
	var refused *Permanent
	switch {
	case errors.As(cause, &refused):
		return agent.Failure{Code: refused.Code, Stage: stage, Message: refused.Message}, true
	case errors.As(cause, &pod):
		return agent.Failure{Code: pod.Code, Stage: stage, Message: pod.Message, Retryable: !pod.Permanent},
			pod.Permanent
	default:
		e := fault.From(cause)
		return agent.Failure{Code: e.Code, Stage: stage, Message: e.Detail, Retryable: true}, false
	}
}
