package agent

import (
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// HeldUsage is the part of its organization's plan that an agent holds in its present status. It is zero for an agent
// on a plan that no longer exists, so that such an agent can still be stopped and deleted. An organization's usage is
// always the sum over its agents: every change of an agent changes the usage by the difference.
//
// A paused agent keeps its CPU and memory, so that resuming never fails for capacity. A stopped agent keeps its slot
// and storage. A deleting agent keeps nothing, although its volume is still being deleted: a client need not wait
// for our deletion before it creates another agent. Neither does an agent whose creation ended halfway, once no worker
// waits for its values any more: it never ran.
func (a Agent) HeldUsage() (u organization.Usage) {
	p, err := plan.Get(a.Plan)
	if err != nil || !a.BeingProvisioned() && a.AwaitedSecret() != "" {
		return u
	}
	if !a.Status.has(freesStorage) {
		u.StorageBytes = p.StorageBytes()
	}
	if !a.Status.has(freesSlot) {
		u.Agents = 1
	}
	if !a.Status.has(freesCompute) {
		u.CPUMillis, u.MemoryBytes = p.CPULimitMillicores, p.MemoryBytes()
	}
	return u
}

// Started reports whether a change starts an agent that was down. A restart of an agent in error does, too.
func (a Agent) Started(before Agent) bool {
	return a.Status == Provisioning && !before.Status.Up() && before.Status != Deleting
}
