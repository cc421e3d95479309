package simulationtest

import (
	"slices"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

// checkRest checks what must hold once nothing is left to do.
func (w *World) checkRest() {
	for _, id := range w.Database.ids {
		a, _ := w.Database.Agent(id)
		w.checkRecordAtRest(a)
		w.checkObjectsAtRest(a)
		w.checkDriftAtRest(a)
		w.checkSecretsAtRest(a)
		w.checkSnapshotsAtRest(a)
		w.checkExportsAtRest(a)
		w.checkMoveAtRest(a)
	}
	for _, c := range w.cells() {
		orphans := slices.DeleteFunc(slices.Clone(c.ids()), func(id string) bool {
			_, ok := w.Database.agents[id]
			return ok
		})
		if len(orphans) == len(c.ids()) {
			continue // without an agent in the cell, the collector has no proof and touches nothing
		}
		for _, id := range orphans {
			w.violate("orphans", "agent %s is gone, and its namespace is not", short(id))
		}
	}
	for _, found := range w.Secrets.secrets {
		if _, ok := w.Database.agents[found.agentID]; !ok {
			w.violate("orphans", "agent %s is gone, and its secret %s is not", short(found.agentID), found.key)
		}
	}
	for _, id := range w.Database.Order {
		o := w.Database.Operations[id]
		a, _ := w.Database.Agent(o.AgentID)
		if o.Open() != (a.Operation(id) != nil) {
			w.violate("history", "an operation of %s is %s in the history, and in the record: %t", o.Key, o.Status,
				a.Operation(id) != nil)
		}
	}
	w.checkEntries()
	w.checkBillingAtRest()
	w.checkWebhooksAtRest()
	w.checkReleasesAtRest()
	w.checkCallsAtRest()
	w.checkVisitorsAtRest()
	w.checkStorageAtRest()
}

func (w *World) checkRecordAtRest(a agent.Agent) {
	id := short(a.ID)
	switch {
	case !a.Status.IsSteady():
		w.violate("rest", "agent %s stays %s: %s", id, a.Status, w.describe())
	case !a.Converged():
		w.violate("rest", "agent %s stays at generation %d of %d", id, a.ObservedGeneration, a.Generation)
	case !a.WorkDueAt.IsZero() || !a.Deadline.IsZero() || a.Lease != (agent.Lease{}):
		w.violate("rest", "agent %s is at rest with due %v, deadline %v, lease %+v", id, a.WorkDueAt, a.Deadline,
			a.Lease)
	case a.Warming:
		w.violate("warming", "agent %s stays warming", id)
	case !a.WantsPod() && a.Failure != nil:
		w.violate("failure", "agent %s is %s, and still shows the failure %+v", id, a.Status, *a.Failure)
	case a.Status == agent.Error && !w.mayFail[a.ID] && !lacksSecret(&a) && !w.runsBroken(&a):
		w.violate("error", "agent %s is in error: %+v", id, a.Failure)
	case a.Status == agent.Error && w.home(a.ID).trouble(a.ID) == healthy && a.Recoverable() && w.healthyPod(a):
		w.violate("error", "agent %s stays in error although its pod recovered", id)
	}
	serving := map[agent.Status]agent.Serving{
		agent.Running: agent.Up, agent.Error: agent.Down, agent.Stopped: agent.Idle, agent.Paused: agent.Idle,
	}
	if all := a.ServingHistory(); len(all) > 0 && agent.LastServing(all) != serving[a.Status] {
		w.violate("serving", "agent %s is %s, and by its history %+v", id, a.Status, all)
	}
	w.checkOutagesAtRest(a)
	for _, o := range a.Operations {
		switch {
		case o.Status == secret.Failed, o.Stage == secret.Store && !o.Storing(w.Now()):
		case o.Stage == secret.Rollout && !a.WantsPod():
		case a.Status == agent.Error:
		default:
			w.violate("rest", "agent %s is at rest with the operation %+v", id, o)
		}
	}
	rotating := slices.ContainsFunc(a.Operations, func(o secret.Operation) bool {
		return o.Action == secret.Rotate && o.Stage != secret.Store && o.Stage != secret.Complete
	})
	if a.RotationPending != rotating {
		w.violate("rotation", "agent %s has rotation pending %t, and an operation that rotates: %t", id,
			a.RotationPending, rotating)
	}
}

// checkOutagesAtRest checks that the history of a running agent has the end of its pod's last outage.
func (w *World) checkOutagesAtRest(a agent.Agent) {
	all, n := a.ServingHistory(), w.home(a.ID).namespaces[a.ID]
	for i, c := range all {
		if c.Since.After(w.Now()) || i > 0 && c.Since.Before(all[i-1].Since) {
			w.violate("serving", "the history of agent %s is not in order: %+v", short(a.ID), all)
		}
	}
	if a.Status != agent.Running || n == nil || n.pod == nil || !n.pod.ready || len(all) == 0 {
		return
	}
	last, lost := all[len(all)-1].Since, n.pod.lost()
	if lost.After(last) && lost.Before(n.pod.since) {
		w.violate("serving", "agent %s did not serve from %v to %v, and its history does not have that: %+v",
			short(a.ID), lost, n.pod.since, all)
	}
}

func (w *World) healthyPod(a agent.Agent) bool {
	n := w.home(a.ID).namespaces[a.ID]
	return n != nil && n.pod != nil && n.pod.ready && n.pod.hash == Hash(a)
}

func (w *World) checkObjectsAtRest(a agent.Agent) {
	n, id := w.home(a.ID).namespaces[a.ID], short(a.ID)
	switch {
	case a.Status == agent.Running && (n == nil || n.set == nil || n.pod == nil || n.set.replicas != 1):
		w.violate("objects", "agent %s runs by its record, and has no pod", id)
	case a.Status == agent.Running && w.home(a.ID).trouble(a.ID) == healthy && n.present() != nil && !w.healthyPod(a):
		w.violate("objects", "agent %s runs by its record, and its pod has another configuration or is not ready: %+v",
			id, n.pod)
	case !a.WantsPod() && n != nil && (n.pod != nil || n.set != nil && n.set.replicas > 0):
		w.violate("objects", "agent %s is %s, and its pod runs", id, a.Status)
	case n != nil && n.stages[agent.StageRoute] && n.starter != starterOf(a):
		w.violate("visitors", "agent %s is %s (%s), and its route says who starts it: %q", id, a.Status,
			a.StatusReason, n.starter)
	case n != nil && !a.WantsPod() && n.stages[agent.StageRoute] && n.way.policy != policyOf(&a):
		w.violate("egress", "agent %s is %s, and its route has the policy %q", id, a.Status, n.way.policy)
	case a.Status != agent.Running:
	case n.set.generation > a.Generation:
		w.violate("objects", "agent %s has generation %d, and its workload %d", id, a.Generation, n.set.generation)
	default:
		for _, stage := range []agent.StageName{agent.StagePolicy, agent.StageIdentity, agent.StageRoute} {
			if !n.stages[stage] {
				w.violate("objects", "agent %s runs without the objects of %s", id, stage)
			}
		}
	}
}

// checkSecretsAtRest checks that the store has the versions that the record names, and no others. The value of an
// operation at the store stage may be there.
func (w *World) checkSecretsAtRest(a agent.Agent) {
	for _, ref := range w.sortedSecrets(a.ID) {
		found := w.Secrets.secrets[ref]
		for i, v := range found.versions {
			if v.destroyed || w.named(a, found.key, int64(i)+1) {
				continue
			}
			if bound := boundVersion(a, found.key); !a.WantsPod() && int64(i)+1 < bound {
				w.violate("superseded versions", "agent %s is %s with version %d of %s, and version %d is left",
					short(a.ID), a.Status, bound, found.key, i+1)
			}
			if found.key == secret.CredentialsKey && v.value == "" && w.Secrets.surplus[a.ID] {
				continue // surplus first credentials of a worker that died: the next rotation destroys them
			}
			if slices.ContainsFunc(a.Operations, func(o secret.Operation) bool { return o.Key == found.key }) {
				continue
			}
			w.violate("surplus versions",
				"the store has version %d of %s (%q) of agent %s, which no operation needs", i+1,
				found.key, v.value,
				short(a.ID))
		}
	}
}

// boundVersion is the version of a variable that the agent's next start needs; 0 for none.
func boundVersion(a agent.Agent, key string) int64 {
	for _, e := range a.Env {
		if e.Key == key {
			return e.SecretVersion
		}
	}
	for _, s := range a.Injected {
		if secret.BrokeredKey(s.Key) == key {
			return s.Version
		}
	}
	return 0
}

func (w *World) sortedSecrets(id string) []string {
	var refs []string
	for ref, found := range w.Secrets.secrets {
		if found.agentID == id {
			refs = append(refs, ref)
		}
	}
	slices.Sort(refs)
	return refs
}

func (w *World) named(a agent.Agent, key string, version int64) bool {
	if key == secret.CredentialsKey {
		return version == a.CredentialVersion || version == a.FormerCredential ||
			a.CredentialVersion == 0 && version == 1
	}
	return hasInjected(a, key, version) ||
		slices.ContainsFunc(a.Env, func(e agent.EnvVar) bool { return e.Key == key && e.SecretVersion == version })
}

// checkEntries checks that each request has one audit entry with its outcome.
func (w *World) checkEntries() {
	for _, c := range w.calls {
		for _, e := range c.entries {
			if !e.finished {
				continue
			}
			found, ok := w.Database.Entries[e.id]
			want := audit.Succeeded
			if e.err != nil {
				want = fault.From(e.err).Code
			}
			switch {
			case !ok:
				w.violate("audit", "the request %s of %s has no audit entry", c.action, c.name)
			case found.Creations != 1:
				w.violate("audit", "the request %s of %s has %d audit entries", c.action, c.name, found.Creations)
			case want == "store_unavailable" && found.Outcome == audit.Succeeded && len(found.Commits) > 0:
				// The server did not learn that the commit took place.
			case found.Outcome != want:
				w.violate("audit", "the request %s of %s ended with %s, and its audit entry says %s", c.action, c.name,
					want, found.Outcome)
			}
		}
	}
}
