package agent

import (
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// resize moves the agent to another plan. All stages of an agent that wants a pod begin again, because the namespace,
// its policy and the volume follow from the plan, too. Errors: Conflict if the plan's volume is smaller than the
// agent's.
func (a *Agent) resize(to plan.ID) error {
	p, err := plan.Get(to)
	if err != nil {
		return err
	}
	if has := a.volumeBytes(); p.StorageBytes() < has {
		return fault.New(fault.Conflict, "storage_cannot_shrink",
			"The agent's volume has %d GiB, and the plan %s has %d GiB. A volume never shrinks. Choose a larger plan, "+
				"or create another agent.", has>>30, to, p.StorageGiB).WithMeta(a.ConflictMeta())
	}
	if former, err := plan.Get(a.Plan); err == nil && a.Sleep.Equal(DefaultSleep(former)) {
		a.Sleep = DefaultSleep(p) // its client asked for none
	}
	a.Plan = to
	if a.WantsPod() {
		a.ForgetStages()
	}
	return nil
}

// KeepsVolume reports whether the agent may have data that another, empty volume would replace without its client's
// decision: it ran, and its client did not start it since.
func (a Agent) KeepsVolume() bool {
	return a.LastReadyIsolation != "" && !a.BeingProvisioned() && !a.Volume.Unmade
}

// volumeBytes is the size that the agent's volume has, or may have: a release that knew another size of the plan may
// have charged for the agent, and a volume takes the present size when its agent starts.
func (a Agent) volumeBytes() int64 {
	p, err := plan.Get(a.Plan)
	if err != nil {
		return a.Held.StorageBytes
	}
	return max(a.Held.StorageBytes, p.StorageBytes())
}
