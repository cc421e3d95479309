package diagnosis

import (
	"slices"
	"strings"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/secret"
)

// working reports whether a worker has work that the agent's user waits for.
func (f Facts) working() bool {
	a := f.Agent
	return a.ApplyDue() || len(a.OperationsAt(secret.Bind)) > 0
}

// waitingFor returns who acts next.
func (f Facts) waitingFor(causes []cause) Party {
	a := f.Agent
	switch {
	case f.working() && a.Leased("", f.Now):
		return Worker
	case len(causes) > 0 && causes[0].party != "":
		return causes[0].party
	case a.Waits(), a.Warming, a.Returns(), f.stopped():
		return Cluster
	case f.working():
		return Worker
	}
	for _, c := range causes {
		if c.party != "" {
			return c.party
		}
	}
	return ""
}

// stopped reports whether the agent's pod is stopped for a snapshot.
func (f Facts) stopped() bool { return f.Agent.WantsPod() && !f.Agent.RunsPod() }

// nextAttempt returns when a worker acts next, if that is in the future.
func (f Facts) nextAttempt() *time.Time {
	a := f.Agent
	due := a.WorkDueAt
	if a.RetryAt.After(due) {
		due = a.RetryAt
	}
	if !f.working() && !a.OperationsDue() || a.Leased("", f.Now) || !due.After(f.Now) {
		return nil
	}
	return optional(due)
}

// givesUp returns when the agent ends in error unless it runs. An outage ends no agent.
func (f Facts) givesUp() *time.Time {
	a := f.Agent
	if !a.WantsPod() || !a.ApplyDue() || a.Failure != nil && a.Failure.Outage {
		return nil
	}
	at := a.Deadline
	if moves := a.Failure; a.Status == agent.Running && moves != nil && moves.Code == agent.CodeUnschedulable &&
		!moves.Observed.Since.IsZero() {
		if ends := moves.Observed.Since.Add(provisioning.Relocation); at.IsZero() || ends.Before(at) {
			at = ends
		}
	}
	return optional(at)
}

// since returns when the present situation began. A change of a resting agent's name moves it, because the record has
// no other time.
func (f Facts) since() time.Time {
	a := f.Agent
	switch {
	case a.Failure != nil && !a.Failure.Observed.Since.IsZero():
		return a.Failure.Observed.Since.UTC()
	case a.ApplyDue() && !a.WaitingSince.IsZero():
		return a.WaitingSince.UTC()
	case a.BeingProvisioned():
		return f.startedAt().UTC()
	}
	return a.UpdatedAt.UTC()
}

// startedAt returns when the agent's present start began.
func (f Facts) startedAt() time.Time {
	for _, s := range f.Agent.Stages {
		if !s.StartedAt.IsZero() {
			return s.StartedAt
		}
	}
	return f.Agent.UpdatedAt
}

// summary says what the agent does, what is wrong, and what it waits for.
func (f Facts) summary(causes []cause) string {
	refused := func(c cause) bool { return c.code == egressRefused }
	if i := slices.IndexFunc(causes, refused); i >= 0 { // what may be the reason, or may not
		others := f.summary(slices.DeleteFunc(slices.Clone(causes), refused))
		return strings.TrimSuffix(others, noProblem) + " " + causes[i].headline
	}
	if len(causes) > 0 {
		return causes[0].headline
	}
	a := f.Agent
	switch {
	case a.WantsPod() && a.Move.State == agent.MoveReturning && !a.Converged():
		return "The agent could not be moved to another cluster. It starts again where it was."
	case a.WantsPod() && !a.Move.Settled():
		return "The agent is being moved to another cluster. It starts there once its data is there, and its address " +
			"changes."
	case f.stopped():
		return "The agent's pod is stopped for a snapshot. It starts again once the snapshot has its data, which " +
			"takes some seconds."
	case a.BeingProvisioned():
		return "The agent is being provisioned. " + f.goal()
	case a.RotationPending && a.Warming:
		return "The agent is getting new credentials. The old ones work until it has the new ones."
	case a.RotationPending:
		return "The agent does not have its new credentials yet. The old ones work until it has them."
	case a.Warming:
		return "The pod is being replaced. The dashboard may not answer for some seconds."
	case a.ApplyDue():
		return "The agent is running. A change is being applied."
	}
	return f.healthy()
}

// goal says what the present stage waits for.
func (f Facts) goal() string {
	goals := map[agent.StageName]string{
		agent.StageNamespace: "Its place in the cluster is being made.",
		agent.StagePolicy:    "Its quota and its network policy are being set.",
		agent.StageIdentity:  "Its credentials are being made.",
		agent.StageSecrets:   "Its secrets are on their way to the cluster.",
		agent.StageStorage:   "Its volume is being made.",
		agent.StageRuntime:   "Its pod is being made.",
		agent.StageRoute:     "Its address is being set.",
		agent.StageReady:     "Its pod must become ready and answer.",
	}
	if f.Agent.Volume.Unmade { // also at the stage ready: some volumes are made for the machine of their pod
		const copied = "Its volume is being made from a snapshot"
		goals[agent.StageStorage] = copied + "."
		goals[agent.StageReady] = copied + ", and then its pod must become ready and answer."
	}
	for _, s := range f.Agent.Unfinished() {
		return goals[s]
	}
	return "It must answer on its address."
}
