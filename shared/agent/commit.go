package agent

import (
	"slices"
	"time"

	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
	"agents.example/controlplane/shared/secret"
)

// These functions say what the commit of a change contains, apart from events (Events) and the audit entry (Changes).
// Every store calls them.

// Edit runs apply on a copy of the agent, and reports whether that changed the record. apply can't change the agent's
// identity. A changed agent has in its record what it holds, and when its schedules are due. If the change chooses an
// image, Edit reads those entries of the catalog with images, which workers need not have: they start no agent.
func (a *Agent) Edit(apply func(*Agent) error, images func(ids []string) (image.Set, error)) (after Agent, changed bool,
	err error,
) {
	after = a.Clone()
	if err := apply(&after); err != nil {
		return *a, false, err
	}
	if images != nil && after.choosesImage(*a) {
		set, err := images(after.ImagesToChooseFrom())
		if err == nil {
			err = after.ChooseImages(*a, set)
		}
		if err != nil {
			return *a, false, err
		}
	}
	after.recordServing(a)
	after.recordAwake(a)
	after.dropSetSecrets()
	after.ID, after.OrganizationID, after.ChangeID = a.ID, a.OrganizationID, a.ChangeID
	after.Version, after.Rest = a.Version, a.Rest
	after.CallsDueAt = after.nextDue()
	if after.Equal(*a) {
		return after, false, nil
	}
	after.hold(a)
	return after, true, nil
}

// nextDue is when a worker must look at the agent's schedules or snapshots; zero if it need not.
func (a *Agent) nextDue() time.Time { return earlier(a.nextCalls(), a.nextSnapshotWork()) }

// Misdated reports whether the record has a later CallsDueAt than this release derives, or none, because another one
// wrote it. The next change corrects it, even one that changes nothing else. An earlier one may be right for a release
// that knows more; if not, the sweep corrects it when it is due.
func (a *Agent) Misdated() bool {
	due := a.nextDue()
	return !due.IsZero() && (a.CallsDueAt.IsZero() || due.Before(a.CallsDueAt))
}

// ChargeCreation checks that a caller may create the agent in its organization, adds the agent to the usage, and counts
// the creation. The rate limit comes last: waiting does not help an organization whose plan has no room.
func (a Agent) ChargeCreation(o *organization.Organization, by identity.AuthType, creations ratelimit.Limit,
	now time.Time,
) error {
	if _, err := a.ChargeChange(o, by, Agent{}); err != nil {
		return err
	}
	return o.CountCreation(creations, now)
}

// ChargeChange checks that a caller may start the agent and move it to its plan, and adds what the change takes to its
// organization's usage. before is the zero Agent for a new agent. depends reports whether the commit must fail if
// another one wrote the organization since it was read: the change writes it, or was allowed or made because of its
// account.
func (a Agent) ChargeChange(o *organization.Organization, by identity.AuthType, before Agent) (depends bool,
	err error,
) {
	starts := a.Started(before)
	if starts && by != identity.System { // which only starts what was allowed before
		if err := a.checkMayStart(*o); err != nil {
			return false, err
		}
	}
	if a.Plan != before.Plan {
		size, err := plan.Get(a.Plan)
		if err != nil {
			return false, err
		}
		if err := o.CheckFits(size); err != nil {
			return false, err
		}
	}
	if _, err := a.Announced(*o, before); err != nil {
		return false, err
	}
	moved := a.HeldUsage().Minus(before.HeldUsage())
	withheld := a.StatusReason == Billing && before.StatusReason != Billing
	return starts || a.Plan != before.Plan || withheld || moved != organization.Usage{}, o.AddUsage(moved)
}

// Announced returns an organization as it will be once the values are stored that a change of the agent announces: an
// agent whose creation ended halfway takes its place again then, when it is too late to refuse them. Errors:
// PaymentRequired if its plan has no room for the agent.
func (a Agent) Announced(o organization.Organization, before Agent) (organization.Organization, error) {
	stored := a
	stored.Operations = slices.DeleteFunc(slices.Clone(a.Operations), func(op secret.Operation) bool {
		return op.Stage == secret.Store && before.Operation(op.ID) == nil
	})
	if len(stored.Operations) == len(a.Operations) {
		return o, nil
	}
	err := o.AddUsage(stored.HeldUsage().Minus(a.HeldUsage()))
	return o, err
}

// checkMayStart checks that an organization may start the agent, whose size may be too large for its present plan. A
// size that only another release knows is left to that one.
func (a Agent) checkMayStart(o organization.Organization) error {
	if err := o.CheckMayStart(); err != nil {
		return err
	}
	size, err := plan.Get(a.Plan)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	return o.CheckFits(size)
}

// NeedsNudge reports whether a change leaves work to a worker.
func (a Agent) NeedsNudge(before Agent, now time.Time) bool {
	// An agent whose secrets are still being stored was not nudged for when it was created.
	stored := before.StoringSecrets(now) && !a.StoringSecrets(now)
	return a.Generation != before.Generation || stored && !a.Converged() ||
		a.CallsDue(now) && !before.CallsDue(now) || a.SnapshotsDue(now) && !before.SnapshotsDue(now) ||
		a.OperationsDue() && !slices.Equal(a.OpenOperations(), before.OpenOperations())
}

// ChangedOperations returns the secret operations that a change began, moved or ended: those whose history is written.
func (a *Agent) ChangedOperations(before Agent) []secret.Operation {
	var changed []secret.Operation
	for _, o := range a.Operations {
		if !slices.Contains(before.Operations, o) {
			o.AgentID, o.OrganizationID = a.ID, a.OrganizationID
			changed = append(changed, o)
		}
	}
	return changed
}
