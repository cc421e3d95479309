package agent

import (
	"cmp"

	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// HeldUsage is the part of its organization's plan that an agent holds in its present status. An organization's usage
// is always the sum over its agents: every change of an agent changes the usage by the difference.
//
// The record has the amounts that were charged, so that exactly these are given back, also by a release that knows
// other sizes of the plan, or not the plan. A record without amounts, of an older release, holds what its plan has.
//
// A paused agent keeps its CPU and memory, so that resuming never fails for capacity. A stopped agent keeps its slot
// and storage. A deleting agent keeps nothing, although its volume is still being deleted: a client need not wait
// for our deletion before it creates another agent. Neither does an agent whose creation ended halfway, once no worker
// waits for its values any more: it never ran.
func (a *Agent) HeldUsage() organization.Usage {
	if !a.BeingProvisioned() && a.AwaitedSecret() != "" {
		return organization.Usage{}
	}
	u := a.Held
	if p, err := plan.Get(a.Plan); err == nil {
		u.Agents = 1
		u.CPUMillis, u.MemoryBytes = cmp.Or(u.CPUMillis, p.CPULimitMillicores), cmp.Or(u.MemoryBytes, p.MemoryBytes())
		u.StorageBytes = cmp.Or(u.StorageBytes, p.StorageBytes())
	}
	if a.Status.has(freesStorage) {
		u.StorageBytes, u.SnapshotBytes = 0, 0
	}
	if a.Status.has(freesSlot) {
		u.Agents = 0
	}
	if a.Status.has(freesCompute) {
		u.CPUMillis, u.MemoryBytes = 0, 0
	}
	return u
}

// HoldsUnknown reports whether HeldUsage is unknown, and therefore zero: the record has no amounts, and its plan does
// not exist. Such an agent can still be stopped and deleted.
func (a Agent) HoldsUnknown() bool {
	_, err := plan.Get(a.Plan)
	return err != nil && a.Held == organization.Usage{}
}

// hold records what the agent holds after a change. What it held before keeps its amount, as long as the plan is the
// same.
func (a *Agent) hold(before *Agent) {
	a.Held = before.HeldUsage()
	if a.Plan != before.Plan {
		a.Held = organization.Usage{}
	}
	a.Held.SnapshotBytes = a.SnapshotBytes()
	a.Held = a.HeldUsage()
}

// Started reports whether a change starts an agent that was down. A restart of an agent in error does, too.
func (a Agent) Started(before Agent) bool {
	return a.Status == Provisioning && !before.Status.Up() && before.Status != Deleting
}
