package agent

import (
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// HeldUsage is what an agent takes of its organization's plan in its present status. The usage of an organization is
// the sum of its agents' holdings, always: every change of an agent moves the usage by the difference.
//
// A paused agent keeps its CPU and memory, so that resuming never fails for capacity. A stopped one keeps slot and
// storage. A deleting one keeps only its storage, until the volume is observed gone.
func (a Agent) HeldUsage() (organization.Usage, error) {
	p, err := plan.Get(a.Plan)
	if err != nil {
		return organization.Usage{}, err
	}
	u := organization.Usage{StorageBytes: p.StorageBytes()}
	if !a.Status.has(freesSlot) {
		u.Agents = 1
	}
	if !a.Status.has(freesCompute) {
		u.CPUMillis, u.MemoryBytes = p.CPULimitMillicores, p.MemoryBytes()
	}
	return u, nil
}

// Started reports whether a change of an agent brings one up that was down. A restart of one in error does, too.
func (a Agent) Started(before Agent) bool {
	return a.Status == Provisioning && !before.Status.Up() && before.Status != Deleting
}
