package simulationtest

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

// claim is the claim of one volume of an agent.
type claim struct {
	// volume tells volumes apart that have the same claim one after the other.
	volume int
	// size is what it asks for in bytes, and bound is true once the volume is made.
	size  int64
	bound bool
	// from is the handle of the snapshot that the volume is made from; empty for an empty one.
	from string
	// data lists what was written, by numbers that no other write has.
	data []int
}

// cut is a snapshot of a volume.
type cut struct {
	handle string
	volume int64
	data   []int
	// quiet: no container was using the volume when it was cut.
	asked, cutAt time.Time
	ready, quiet bool
	terminating  bool
	// retain: the data outlives the snapshot, and so does that of one that is adopted and unbound.
	retain, unbound bool
	size            int64
}

func cloneAll[K comparable, V any](all map[K]*V) map[K]*V {
	copied := make(map[K]*V, len(all))
	for key, v := range all {
		copied[key] = new(*v)
	}
	return copied
}

func (c *Cluster) newClaim(size int64) *claim {
	c.storage.volumes++
	return &claim{volume: c.storage.volumes, size: size}
}

// present is the claim that the agent's workload names, or else the newest one.
func (n *namespace) present() *claim {
	if n.set != nil && n.claims[n.set.template.volume] != nil {
		return n.claims[n.set.template.volume]
	}
	var newest *claim
	for _, number := range slices.Sorted(maps.Keys(n.claims)) {
		newest = n.claims[number]
	}
	return newest
}

// volume tells the present volume apart from former ones; 0 if there is none.
func (n *namespace) volume() int {
	if v := n.present(); v != nil {
		return v.volume
	}
	return 0
}

// largest is the size of the largest volume.
func (n *namespace) largest() (size int64) {
	for _, v := range n.claims {
		size = max(size, v.size)
	}
	return size
}

// uses reports whether a pod uses a volume.
func (n *namespace) uses(number int64) bool { return n.pod != nil && n.pod.volume == number }

// provisionable reports whether a volume is made, or can be.
func (c *Cluster) provisionable(n *namespace, v *claim) bool {
	if v.bound || v.from == "" {
		return true
	}
	s := n.cutOf(v.from)
	return s != nil && s.ready && c.storage.kept[v.from] != nil
}

// cutOf returns the snapshot with a handle, or nil.
func (n *namespace) cutOf(handle string) *cut {
	for _, s := range n.cuts {
		if s.handle == handle {
			return s
		}
	}
	return nil
}

// mount makes the volume, if it is not made yet, and lets a container write to it.
func (c *Cluster) mount(id string, n *namespace, v *claim) {
	if !v.bound && v.from != "" {
		v.data = slices.Clone(c.storage.kept[v.from].data)
		if c.mounted != nil {
			c.mounted(id, n, v)
		}
	}
	v.bound = true
	c.storage.writes++
	v.data = append(v.data, c.storage.writes)
}

// storageActions lists what the storage of the cell can do.
func (c *Cluster) storageActions(actions []Action) []Action {
	for _, id := range c.ids() {
		n := c.namespaces[id]
		for _, key := range n.cutOrder {
			s := n.cuts[key]
			add := func(name string, do func()) {
				actions = append(actions, Action{name, short(id), func() { do(); c.notify() }})
			}
			switch {
			case s.terminating && !n.makes(s):
				add("storage deletes a snapshot", func() { n.drop(key); c.storage.release(s) })
			case s.cutAt.IsZero() && n.claims[s.volume] != nil && c.now().Sub(s.asked) >= c.storage.cutTime:
				add("storage cuts a snapshot", func() { c.cut(id, key, n, s) })
			case !s.cutAt.IsZero() && !s.ready && c.storage.kept[s.handle] != nil:
				add("storage has copied a snapshot", func() { s.ready, s.unbound = true, false })
			}
		}
	}
	return actions
}

// keep adds a snapshot.
func (n *namespace) keep(id string, s *cut) {
	n.cuts[id] = s
	n.cutOrder = slices.Sorted(maps.Keys(n.cuts))
}

// drop removes a snapshot.
func (n *namespace) drop(id string) {
	delete(n.cuts, id)
	n.cutOrder = slices.Sorted(maps.Keys(n.cuts))
}

// makes reports whether a volume is being made from a snapshot.
func (n *namespace) makes(s *cut) bool {
	for _, v := range n.claims {
		if !v.bound && v.from != "" && v.from == s.handle {
			return true
		}
	}
	return false
}

// cut takes a snapshot of what a volume has now.
func (c *Cluster) cut(id, key string, n *namespace, s *cut) {
	v := n.claims[s.volume]
	c.storage.volumes++
	s.cutAt, s.handle, s.size = c.now(), "handle "+strconv.Itoa(c.storage.volumes), v.size
	s.data, s.quiet = slices.Clone(v.data), !n.uses(s.volume) || !n.pod.started
	c.storage.kept[s.handle] = &stored{id, s.data}
	if c.wasCut != nil {
		c.wasCut(id, key, s)
	}
}

// putSnapshot asks for a snapshot, if no worker has, and returns its state.
func (c *Cluster) putSnapshot(a agent.Agent, s agent.Snapshot, quiet bool) (agent.SnapshotState, error) {
	n, err := c.find(a.ID)
	if err != nil {
		return agent.SnapshotState{}, err
	}
	found := n.cuts[s.ID]
	if found == nil {
		switch {
		case n.claims[s.Volume] == nil:
			return agent.SnapshotState{}, fault.New(fault.Unavailable, "volume_missing", "The volume does not exist.")
		case quiet && n.uses(s.Volume) && !c.Rules.NeverQuiet:
			return agent.SnapshotState{}, provisioning.ErrVolumeInUse
		}
		found = &cut{volume: s.Volume, asked: c.now()}
		n.keep(s.ID, found)
		c.notify()
	}
	state := agent.SnapshotState{CutAt: found.cutAt, Handle: found.handle, Ready: found.ready, SizeBytes: found.size}
	if c.Rules.CutEarly && state.CutAt.IsZero() {
		state.CutAt = c.now()
	}
	return state, nil
}

var _ provisioning.Volumes = ClusterClient{}

// Snapshot implements provisioning.Volumes.
func (c ClusterClient) Snapshot(ctx context.Context, a agent.Agent, s agent.Snapshot, quiet bool) (
	agent.SnapshotState, error,
) {
	c = c.in(a.Cell)
	var found agent.SnapshotState
	if err := c.call(ctx, a, "ask for snapshot", func() error {
		var err error
		found, err = c.Cluster.putSnapshot(a, s, quiet)
		return err
	}); err != nil {
		return agent.SnapshotState{}, err // found may still be written: the call happens late
	}
	return found, nil
}

// DeleteSnapshot implements provisioning.Volumes.
func (c ClusterClient) DeleteSnapshot(ctx context.Context, a agent.Agent, s agent.Snapshot) (bool, error) {
	c = c.in(a.Cell)
	var gone bool
	err := c.call(ctx, a, "delete snapshot", func() error {
		n := c.Cluster.namespaces[a.ID]
		gone = n == nil || n.cuts[s.ID] == nil
		if !gone && !n.cuts[s.ID].terminating && (!n.cuts[s.ID].unbound || c.Cluster.Rules.OwnUnbound) {
			n.cuts[s.ID].terminating, n.cuts[s.ID].retain = true, false
			c.Cluster.notify()
		}
		return nil
	})
	return err == nil && gone, err // gone may still be written if the call failed: it happens late
}

// DeleteVolume implements provisioning.Volumes.
func (c ClusterClient) DeleteVolume(ctx context.Context, a agent.Agent, number int64) (bool, error) {
	c = c.in(a.Cell)
	var gone bool
	err := c.call(ctx, a, "delete volume", func() error {
		n := c.Cluster.namespaces[a.ID]
		switch gone = n == nil || n.claims[number] == nil; {
		case gone:
		case n.uses(number):
			return provisioning.ErrVolumeInUse
		default:
			c.Cluster.dropped(a.ID, n, number)
			delete(n.claims, number)
			c.Cluster.notify()
		}
		return nil
	})
	return err == nil && gone, err // gone may still be written if the call failed: it happens late
}

// dropped reports the deletion of a volume of an agent that exists.
func (c *Cluster) dropped(id string, n *namespace, number int64) {
	if c.deleted != nil {
		c.deleted(id, n, number)
	}
}
