package simulationtest

import (
	"context"
	"slices"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// arrangeMoves chooses a schedule with moves between two cells.
func arrangeMoves(s *Scheduler, u *Setup) {
	*u = Setup{
		Start:   []agent.Status{agent.Running, agent.Running, agent.Running, agent.Stopped, agent.Paused}[s.Choose(5)],
		Workers: 1 + s.Choose(3), Steps: 100 + s.Choose(200), Faults: s.Choose(4), Stalls: s.Choose(3),
		Duplicates: s.Choose(3), Ticks: s.Choose(4), Restarts: s.Choose(2),
		Skew: []time.Duration{0, maxSkew}[s.Choose(2)], Moves: true,
	}
	actions := []string{
		"move", "move", "move back", "snapshot", "restore", "drop", "patch", "restart", "stop", "start", "pause",
		"resume", "take latest", "resize", "put", "delete",
	}
	for i := range 1 + s.Choose(2) {
		script := []string{"move"}
		if i == 0 && s.Choose(2) == 0 {
			script = []string{"snapshot", "move"}
		}
		if s.Choose(6) == 0 {
			script, u.Stuck = append(script, "delete"), 30*time.Minute
		}
		for range 1 + s.Choose(4) {
			script = append(script, actions[s.Choose(len(actions))])
		}
		u.Scripts = append(u.Scripts, script)
	}
	switch s.Choose(8) {
	case 0:
		u.Outage = Service(s.Choose(4)) //nolint:gosec // below the number of services
		u.OutageTime = []time.Duration{2 * time.Minute, 40 * time.Minute}[s.Choose(2)]
	case 1, 2: // the agent goes back
		u.Trouble = []trouble{neverReady, crashLoop}[s.Choose(2)]
		u.TroubleTime = []time.Duration{time.Minute, 40 * time.Minute, 20 * time.Hour}[s.Choose(3)]
		u.Elsewhere = s.Choose(3) > 0
	}
}

// arrangeCells makes the second cell.
func (w *World) arrangeCells() {
	if !w.setup.Moves {
		return
	}
	c := NewCluster(w.Cluster.now, w.Cluster.elapsed)
	c.name, c.storage, c.Rules = otherCell, w.Cluster.storage, w.Cluster.Rules
	c.deleted, c.wasCut, c.observed = w.Cluster.deleted, w.Cluster.wasCut, w.Cluster.observed
	c.mounted, w.Cluster.mounted = w.checkMounted, w.checkMounted
	w.Other = c
}

// suffer gives the pods of an agent a trouble.
func (w *World) suffer(id string, t trouble) {
	for _, c := range w.cells() {
		if c.name == otherCell || !w.setup.Elsewhere {
			c.troubles[id] = t
		}
	}
}

// cells lists the cells.
func (w *World) cells() []*Cluster {
	if w.Other == nil {
		return []*Cluster{w.Cluster}
	}
	return []*Cluster{w.Cluster, w.Other}
}

// cellNamed returns a cell.
func (w *World) cellNamed(name string) *Cluster {
	if w.Other != nil && w.Other.name == name {
		return w.Other
	}
	return w.Cluster
}

// home is the cell of an agent.
func (w *World) home(id string) *Cluster {
	if w.Other == nil {
		return w.Cluster
	}
	if d := w.Database.agents[id]; d != nil {
		return w.cellNamed(d.agent.Cell)
	}
	return w.Cluster
}

func (w *World) clusterChanges() (sum int64) {
	for _, c := range w.cells() {
		sum += c.changes
	}
	return sum
}

// removedFrom is a namespace of an agent whose record is being removed; nil if there is none.
func (w *World) removedFrom(id string) *namespace {
	for _, c := range w.cells() {
		if n := c.namespaces[id]; n != nil {
			return n
		}
	}
	return nil
}

// left reports whether a cell has a namespace of the agent that was never removed.
func (w *World) left(id string) bool {
	return slices.ContainsFunc(w.cells(), func(c *Cluster) bool { return c.namespaces[id] != nil && !c.removed[id] })
}

// move is an operator's request.
func (w *World) move(a *agent.Agent, action string, now time.Time) error {
	places := []agent.Place{{Cell: otherCell, Region: "elsewhere"}, {Cell: cell}}
	if action == "move back" || a.Cell == otherCell {
		slices.Reverse(places)
	}
	return a.StartMove(places[0], false, now)
}

// AdoptSnapshot implements provisioning.Volumes.
func (c ClusterClient) AdoptSnapshot(ctx context.Context, a agent.Agent, s agent.Snapshot) error {
	c = c.in(a.Cell)
	return c.call(ctx, a, "adopt snapshot", func() error {
		n, err := c.Cluster.find(a.ID)
		if err != nil || n.cuts[s.ID] != nil {
			return err
		}
		adopted := &cut{
			handle: s.Handle, volume: s.Volume, cutAt: s.CutAt, size: s.SizeBytes, retain: !c.Cluster.Rules.AdoptOwned,
		}
		if kept := c.Cluster.storage.kept[s.Handle]; kept != nil {
			adopted.data, adopted.unbound = kept.data, true
		}
		n.keep(s.ID, adopted)
		c.Cluster.notify()
		return nil
	})
}

// RetainSnapshot implements provisioning.Volumes.
func (c ClusterClient) RetainSnapshot(ctx context.Context, a agent.Agent, s agent.Snapshot, retain bool) error {
	c = c.in(a.Cell)
	return c.call(ctx, a, "retain snapshot", func() error {
		n := c.Cluster.namespaces[a.ID]
		switch {
		case n == nil || n.cuts[s.ID] == nil || c.Cluster.Rules.NeverRetain:
		case !retain && n.cuts[s.ID].unbound && !c.Cluster.Rules.OwnUnbound:
			return provisioning.ErrSnapshotUnbound
		default:
			n.cuts[s.ID].retain = retain
		}
		return nil
	})
}

// takes reports whether an agent's former cell still has its snapshots.
func (w *World) takes(a *agent.Agent) bool {
	return a.Move.State == agent.MoveStarting || a.Move.State == agent.MoveAdopting
}

// checkMove checks that an agent's containers run in one cell only, and in the one that its record names.
func (w *World) checkMove(a *agent.Agent) {
	if w.Other == nil {
		return
	}
	started := func(c *Cluster) bool {
		n := c.namespaces[a.ID]
		return n != nil && n.pod != nil && n.pod.started
	}
	if started(w.Cluster) && started(w.Other) {
		w.violate("one pod", "the containers of agent %s run in two cells; its move: %+v", short(a.ID), a.Move)
	}
	if other := a.OtherCell(); a.Move.State != agent.MoveReturning && other != "" && a.Status != agent.Deleting &&
		started(w.cellNamed(other)) {
		w.violate("one pod", "a container of agent %s runs in the cell that it has left: %+v", short(a.ID), a.Move)
	}
}

// checkDeparture checks the commit that makes another cell the agent's: the snapshot has everything that was written.
func (w *World) checkDeparture(before, after agent.Agent) {
	id, n := short(after.ID), w.cellNamed(before.Cell).namespaces[after.ID]
	if w.deletedByHand[after.ID] || after.Move.State != agent.MoveStarting {
		return
	}
	if n == nil || n.claims[before.Volume.Number] == nil {
		w.violate("moves", "agent %s leaves a cell that does not have its volume", id)
		return
	}
	kept := w.Cluster.storage.kept[after.Volume.Source.Handle]
	if data := n.claims[before.Volume.Number].data; kept == nil || !slices.Equal(kept.data, data) {
		w.violate("moves", "agent %s leaves a cell with the data %v, and takes along %+v", id, data, kept)
	}
}

// checkMounted checks the first start with a volume in the new cell.
func (w *World) checkMounted(id string, _ *namespace, v *claim) {
	a, _ := w.Database.Agent(id)
	if a.Move.State != agent.MoveStarting || a.Volume.Source.Handle != v.from {
		return
	}
	n := w.cellNamed(a.Move.From.Cell).namespaces[id]
	if n == nil || n.claims[a.Move.Volume.Number] == nil ||
		!slices.Equal(n.claims[a.Move.Volume.Number].data, v.data) {
		w.violate("moves", "agent %s starts in its new cell with the data %v, and had other data", short(id), v.data)
	}
}

// checkMoveAtRest checks that nothing of an agent is left in the other cell.
func (w *World) checkMoveAtRest(a agent.Agent) {
	if w.Other == nil {
		return
	}
	for _, c := range w.cells() {
		if n := c.namespaces[a.ID]; c.name != a.Cell && n != nil {
			w.violate("left", "agent %s is in the cell %s, and %s has its namespace (deleted: %t)", short(a.ID), a.Cell,
				c.name, n.terminating)
		}
	}
	if a.Move.Open() {
		w.violate("left", "the move of agent %s does not end: %+v", short(a.ID), a.Move)
	}
}

// checkStorageAtRest checks that the storage has the snapshots of records only.
func (w *World) checkStorageAtRest() {
	for handle, kept := range w.Cluster.storage.kept {
		a, ok := w.Database.Agent(kept.agentID)
		named := slices.ContainsFunc(a.Snapshots, func(s agent.Snapshot) bool { return s.Handle == handle })
		failed := slices.ContainsFunc(a.Snapshots,
			func(s agent.Snapshot) bool { return s.Status == agent.SnapshotFailed })
		if !ok || !named && !failed && !w.deletedByHand[a.ID] {
			w.violate("leftovers", "the storage has the data %q of agent %s, which no record names", handle,
				short(kept.agentID))
		}
	}
}
