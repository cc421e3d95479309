package simulationtest

import (
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
)

// putVolume makes the claim of an agent's volume, or grows it. It keeps a claim that asks for more.
func (c *Cluster) putVolume(n *namespace, a agent.Agent) error {
	asked, v := volumeOf(a.Plan), n.claims[a.Volume.Number]
	switch {
	case v == nil && a.KeepsVolume() && !c.Rules.SilentVolume:
		return fault.New(fault.Unavailable, provisioning.CodeNamespaceMissing, "The agent's volume does not exist.")
	case n.stages[agent.StagePolicy] && asked > max(n.largest(), volumeOf(n.room)):
		return fault.New(fault.Unavailable, "quota_exceeded", "The quota has no room for the volume.")
	case v == nil:
		v = c.newClaim(asked)
		v.from = a.Volume.Source.Handle
		n.claims[a.Volume.Number] = v
	case asked > v.size && !v.bound && !c.Rules.ForgetGrowth:
		return provisioning.ErrVolumeUnbound
	case asked > v.size && !v.bound:
	case asked > v.size:
		v.size = asked
	}
	n.stages[agent.StageStorage] = true
	c.notify()
	return nil
}

// volumeOf is the size of the volume of a plan.
func volumeOf(id plan.ID) int64 {
	p, err := plan.Get(id)
	if err != nil {
		return 0
	}
	return p.StorageBytes()
}

// larger is the next larger plan; hobby above the largest one.
func larger(id plan.ID) plan.ID {
	p, err := plan.Get(id)
	if err != nil || p.Next() == "" {
		return plan.Hobby
	}
	return p.Next()
}

// admits reports whether the quota has room for a pod of a plan.
func (n *namespace) admits(size plan.ID) bool {
	return !n.stages[agent.StagePolicy] || volumeOf(size) <= volumeOf(n.room)
}

// VolumeBytes is the size of an agent's volume; 0 if there is none.
func (c *Cluster) VolumeBytes(id string) int64 {
	if n := c.namespaces[id]; n != nil && n.present() != nil {
		return n.present().size
	}
	return 0
}

// LoseVolume deletes an agent's volume, as a person does. A pod that runs keeps it until it ends.
func (c *Cluster) LoseVolume(id string) {
	if n := c.namespaces[id]; n != nil {
		for number, v := range n.claims {
			if v == n.present() {
				delete(n.claims, number)
			}
		}
		c.notify()
	}
}

// seenVolume is an agent's volume as the oracle saw it last.
type seenVolume struct {
	place  int64
	number int
	size   int64
}

// checkVolume checks that an agent's volume is neither replaced nor made smaller.
func (w *World) checkVolume(a *agent.Agent) {
	n := w.home(a.ID).namespaces[a.ID]
	if n == nil || n.claims[a.Volume.Number] == nil {
		return
	}
	v := n.claims[a.Volume.Number]
	seen, now := w.volumes[a.ID], seenVolume{a.Volume.Number, v.volume, v.size}
	switch {
	case seen.place != now.place: // a restore
	case seen.number != 0 && seen.number != now.number && !w.deletedByHand[a.ID]:
		w.violate("volumes", "agent %s has another volume, and no person deleted the former one", short(a.ID))
	case seen.number == now.number && now.size < seen.size:
		w.violate("volumes", "the volume of agent %s had %d GiB, and has %d GiB", short(a.ID), seen.size>>30,
			now.size>>30)
	}
	w.volumes[a.ID] = now
}

// checkSize checks that the pod and the volume of a running agent are those of its plan.
func (w *World) checkSize(a *agent.Agent, n *namespace) {
	size := volumeOf(a.Plan)
	if v := n.claims[a.Volume.Number]; v != nil {
		size = v.size
	}
	if n.pod.size != a.Plan || size != volumeOf(a.Plan) {
		w.violate("sizes", "agent %s is on the plan %s, its pod is of %s, and its volume has %d GiB", short(a.ID),
			a.Plan, n.pod.size, size>>30)
	}
}

// checkResize checks the commit of a change of an agent's size: it never makes the volume smaller, and what it takes up
// fits the organization's plan.
func (w *World) checkResize(o organizationDocument, before, after agent.Agent) {
	if before.ID == "" || after.Plan == before.Plan {
		return
	}
	id := short(after.ID)
	if volumeOf(after.Plan) < volumeOf(before.Plan) {
		w.violate("sizes", "agent %s was moved from the plan %s to %s, which is smaller", id, before.Plan, after.Plan)
	}
	size, sizeErr := plan.Get(after.Plan)
	limits, err := o.Limits()
	if err != nil || sizeErr != nil {
		return
	}
	moved := after.HeldUsage().Minus(before.HeldUsage())
	used := o.Usage.Plus(moved)
	if o.CheckFits(size) != nil || moved.CPUMillis > 0 && used.CPUMillis > limits.CPUMillis ||
		moved.StorageBytes > 0 && used.StorageBytes > limits.StorageBytes {
		w.violate("sizes", "agent %s was moved to the plan %s, for which the organization's plan %s has no room", id,
			after.Plan, o.Plan)
	}
}

// loseVolume lets a person delete the agent's volume.
func (w *World) loseVolume(actions []Action) []Action {
	u, id := &w.setup, agentID(1)
	n := w.home(id).namespaces[id]
	if !u.LostVolume || n == nil || n.present() == nil || n.terminating || !w.Chance(0.05) {
		return actions
	}
	return append(actions, Action{"a person deletes the volume", short(id), func() {
		u.LostVolume = false
		w.mayFail[id], w.deletedByHand[id] = true, true
		if a, _ := w.Database.Agent(id); !a.BeingProvisioned() {
			w.lostVolume = map[string]int{id: n.volume()}
		}
		w.home(id).LoseVolume(id)
	}})
}
