package simulationtest

import (
	"context"
	"errors"
	"slices"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/provisioning"
)

// updates wraps a store of workers: change replaces the closures that they commit.
type updates struct {
	agent.WorkerStore
	wrap func(change func(*agent.Agent)) func(*agent.Agent)
}

func (u updates) Update(ctx context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	return u.WorkerStore.Update(ctx, a, u.wrap(change))
}

// stores wraps the store of one kind of process.
func stores(kind string, wrap func(s agent.WorkerStore) agent.WorkerStore) Plant {
	return Plant{Records: func(_ *World, process string, inner agent.WorkerStore) agent.WorkerStore {
		if process != kind {
			return inner
		}
		return wrap(inner)
	}}
}

// altered shows other records than there are.
type altered struct {
	agent.WorkerStore
	alter func(*agent.Agent)
}

func (s altered) Load(ctx context.Context, id string) (agent.Agent, error) {
	a, err := s.WorkerStore.Load(ctx, id)
	s.alter(&a)
	return a, err
}

// loads makes one kind of process begin with other records than there are.
func loads(kind string, alter func(*agent.Agent)) Plant {
	return stores(kind, func(s agent.WorkerStore) agent.WorkerStore { return altered{s, alter} })
}

// alwaysAltered also shows what was written otherwise than it is.
type alwaysAltered struct{ altered }

func (s alwaysAltered) Update(ctx context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	present, err := s.WorkerStore.Update(ctx, a, change)
	s.alter(&present)
	return present, err
}

// shows makes one kind of process see other records than there are, whenever it reads or writes one.
func shows(kind string, alter func(*agent.Agent)) Plant {
	return stores(kind, func(s agent.WorkerStore) agent.WorkerStore { return alwaysAltered{altered{s, alter}} })
}

// workerWrites plants a defect in the writes of one kind of process.
func workerWrites(kind string, wrap func(w *World, change func(*agent.Agent)) func(*agent.Agent)) Plant {
	return Plant{Records: func(w *World, process string, inner agent.WorkerStore) agent.WorkerStore {
		if process != kind {
			return inner
		}
		return updates{inner, func(change func(*agent.Agent)) func(*agent.Agent) { return wrap(w, change) }}
	}}
}

// afterWorker makes a write of one kind of process do more.
func afterWorker(kind string, also func(w *World, before agent.Agent, a *agent.Agent)) Plant {
	return workerWrites(kind, func(w *World, change func(*agent.Agent)) func(*agent.Agent) {
		return func(a *agent.Agent) {
			before := a.Clone()
			change(a)
			also(w, before, a)
		}
	})
}

// requests wraps a store of routes.
type requests struct {
	agent.Store
	also func(before agent.Agent, a *agent.Agent)
}

func (r requests) Change(ctx context.Context, id string, change func(*agent.Agent) error) (agent.Agent, error) {
	return r.Store.Change(ctx, id, func(a *agent.Agent) error {
		before := a.Clone()
		err := change(a)
		if err == nil {
			r.also(before, a)
		}
		return err
	})
}

// afterRequest makes a change of a route do more.
func afterRequest(also func(w *World, before agent.Agent, a *agent.Agent)) Plant {
	return Plant{Agents: func(w *World, inner agent.Store) agent.Store {
		return requests{inner, func(before agent.Agent, a *agent.Agent) { also(w, before, a) }}
	}}
}

// giveUp ends the work on an agent in error.
func giveUp(a *agent.Agent, code string) {
	a.Status, a.Failure = agent.Error, &agent.Failure{Code: code}
	a.ObservedGeneration, a.WorkDueAt, a.Deadline, a.Warming = a.Generation, time.Time{}, time.Time{}, false
	a.Lease = agent.Lease{}
}

// amnesiac reads records that know no versions.
type amnesiac struct{ agent.Store }

func (s amnesiac) Get(ctx context.Context, id string) (agent.Agent, error) {
	a, err := s.Store.Get(ctx, id)
	a.SecretVersions, a.Live, a.Env = nil, nil, nil
	for i := range a.Operations {
		a.Operations[i].LatestBefore = 0
	}
	return a, err
}

// unguarded writes whatever the generation is.
type unguarded struct{ agent.WorkerStore }

func (u unguarded) Update(ctx context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	present, err := u.WorkerStore.Update(ctx, a, change)
	if errors.Is(err, agent.ErrSuperseded) {
		return u.WorkerStore.Update(ctx, present, change)
	}
	return present, err
}

// gravedigger gives up every agent that it loads while work is left.
type gravedigger struct{ agent.WorkerStore }

func (g gravedigger) Load(ctx context.Context, id string) (agent.Agent, error) {
	a, err := g.WorkerStore.Load(ctx, id)
	if err != nil || !a.WantsPod() || a.Converged() {
		return a, err
	}
	return g.Update(ctx, a, func(a *agent.Agent) { giveUp(a, "attempts_exhausted") })
}

// withoutSuperseded shows no version of an agent without a pod as superseded.
func withoutSuperseded(a *agent.Agent) {
	a.SecretVersions = slices.Clone(a.SecretVersions)
	for i := range a.SecretVersions {
		if r := &a.SecretVersions[i]; !a.WantsPod() {
			r.DestroyedBefore = r.Highest + 1
		}
	}
}

// forgetful lists no agent that is due.
type forgetful struct{ agent.WorkerStore }

func (forgetful) ListDue(context.Context, time.Time, int) ([]agent.Agent, error) { return nil, nil }

// shortList ends a list at the first page that lacks a record, as if it were the last one.
type shortList struct{ agent.WorkerStore }

func (s shortList) ListByStatus(ctx context.Context, status agent.Status, after string, limit int) (
	page.Page[agent.Agent], error,
) {
	found, err := s.WorkerStore.ListByStatus(ctx, status, after, limit)
	if len(found.Items) > 0 {
		found.Items, found.Next = found.Items[:0], ""
	}
	return found, err
}

// asFirstAttempt shows each attempt as the first, and each look as one right after the objects were applied.
func asFirstAttempt(a *agent.Agent) {
	a.Attempts = 0
	if a.Waits() {
		a.AppliedAt = time.Now().AddDate(1000, 0, 0)
	}
}

// isWaiting reports whether a worker has recorded that it waits for an agent.
func isWaiting(a agent.Agent) bool {
	return !a.WaitingSince.IsZero() && a.Lease == (agent.Lease{}) && !a.Converged()
}

// waitingRefused answers a push for an agent that waits for its pod with an error.
func waitingRefused() Plant {
	return Plant{Answer: func(w *World, id string, err error) error {
		if a, ok := w.Database.Agent(id); ok && err == nil && a.Waits() {
			return &provisioning.PodFailure{Code: "readiness_timeout", Message: "The pod is not ready."}
		}
		return err
	}}
}

// lingering waits half a minute for the pod.
type lingering struct{ agent.WorkerStore }

func (l lingering) Update(ctx context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	a, err := l.WorkerStore.Update(ctx, a, change)
	if isWaiting(a) {
		time.Sleep(30 * time.Second) //nolint:forbidigo // in the bubble's time
	}
	return a, err
}

// patient never ends the work on an agent that waits for the values of its creation.
type patient struct{ agent.WorkerStore }

func (p patient) Update(ctx context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	return p.WorkerStore.Update(ctx, a, func(a *agent.Agent) {
		awaits := a.AwaitedSecret() != ""
		if awaits {
			a.Deadline, a.Attempts = time.Time{}, 1
		}
		change(a)
		if awaits {
			a.Deadline = time.Time{}
		}
	})
}

// hoarder records the first credentials with the next write.
type hoarder struct {
	agent.WorkerStore
	held func(*agent.Agent)
}

func (h *hoarder) Update(ctx context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	present := a.Clone()
	if change(&present); h.held == nil && a.CredentialVersion == 0 && present.CredentialVersion > 0 {
		h.held = change
		return present, nil
	}
	held := h.held
	return h.WorkerStore.Update(ctx, a, func(a *agent.Agent) {
		if held != nil {
			held(a)
		}
		change(a)
	})
}

// stuckDeletion makes a deletion last for hours.
func stuckDeletion(_ *Scheduler, u *Setup) {
	*u = Setup{
		Start: agent.Running, Scripts: [][]string{{"delete"}}, Workers: 1, Stuck: 6 * time.Hour, Steps: 60,
	}
}

// straggle shows finished work as unfinished to the closure, as if no run had finished it.
func straggle(_ *World, change func(*agent.Agent)) func(*agent.Agent) {
	return func(a *agent.Agent) {
		if !a.Converged() {
			change(a)
			return
		}
		observed := a.ObservedGeneration
		a.ObservedGeneration--
		change(a)
		a.ObservedGeneration = observed
	}
}

// hideDeadline makes a worker not see the deadline.
func hideDeadline(_ *World, change func(*agent.Agent)) func(*agent.Agent) {
	return func(a *agent.Agent) {
		a.Deadline = time.Time{}
		change(a)
		if !a.Converged() {
			a.Deadline = time.Time{}
		}
	}
}

// waitingFails makes a delivery fail while the agent's objects are being deleted, and the sweep nudge it each minute.
func waitingFails() Plant {
	p := afterWorker("worker", func(w *World, _ agent.Agent, a *agent.Agent) {
		if a.Status == agent.Deleting {
			soonest(w, a)
		}
	})
	p.Answer = func(w *World, id string, err error) error {
		if a, ok := w.Database.Agent(id); ok && err == nil && a.Status == agent.Deleting {
			return fault.New(fault.Unavailable, "deletion_pending", "The namespace is still there.")
		}
		return err
	}
	return p
}

// collectAll deletes each namespace without a record, without a mark or a proof.
func collectAll(ctx context.Context, w *World, p *Process) error {
	lister := PodClient(w.clusterClient(p))
	all, err := lister.Namespaces(ctx)
	if err != nil {
		return err
	}
	ids := make([]string, len(all))
	for i, each := range all {
		ids[i] = each.AgentID
	}
	exists, err := w.index(p).Exists(ctx, ids)
	if err != nil {
		return err
	}
	for _, each := range all {
		if !exists[each.AgentID] {
			_ = lister.DeleteNamespace(ctx, each)
		}
	}
	return nil
}

// lonelySecrets hides secrets from the collector, and makes some that only it can delete.
func lonelySecrets() Plant {
	p := afterWorker("worker", func(_ *World, before agent.Agent, a *agent.Agent) {
		a.StoringUntil = before.StoringUntil
	})
	p.Secrets.HideOwners = true
	p.Ignores = map[string]bool{"late secrets": true}
	return p
}

// soonest makes the sweep nudge an agent in a minute.
func soonest(w *World, a *agent.Agent) { a.WorkDueAt = w.Now().Add(agent.NudgeGrace) }

// forgetfulRemoval is a store of workers that forgets what they observed of a deletion.
type forgetfulRemoval struct{ agent.WorkerStore }

func (o forgetfulRemoval) Remove(ctx context.Context, a agent.Agent, _ agent.Deletion) error {
	return o.WorkerStore.Remove(ctx, a, agent.Deletion{})
}
