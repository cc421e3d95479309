package simulationtest

import (
	"slices"
	"time"

	"agents.example/controlplane/shared/agent"
)

// soon is how far ahead a due time is for which a world does not rest. What is due daily, or expires, is later.
const soon = 20 * time.Minute

// arrangeSnapshots chooses a schedule with snapshots, restores and updates.
func arrangeSnapshots(s *Scheduler, u *Setup) {
	*u = Setup{
		Start: []agent.Status{agent.Running, agent.Running, agent.Stopped}[s.Choose(3)], Workers: 1 + s.Choose(3),
		Steps: 80 + s.Choose(200), Faults: s.Choose(4), Stalls: s.Choose(3), Duplicates: s.Choose(3),
		Ticks:    s.Choose(4),
		Restarts: s.Choose(2), Skew: []time.Duration{0, maxSkew}[s.Choose(2)],
	}
	actions := []string{
		"snapshot", "snapshot", "snapshot of a crash", "restore", "restore", "drop", "patch", "restart", "stop",
		"start",
		"pause", "resume", "take latest", "take former", "resize", "delete",
	}
	for range 1 + s.Choose(2) {
		script := []string{"snapshot"}
		for range 1 + s.Choose(4) {
			script = append(script, actions[s.Choose(len(actions))])
		}
		u.Scripts = append(u.Scripts, script)
	}
	if s.Choose(8) == 0 {
		u.Outage = Service(s.Choose(4)) //nolint:gosec // below the number of services
		u.OutageTime = []time.Duration{2 * time.Minute, 40 * time.Minute}[s.Choose(2)]
	}
	u.CutTime = []time.Duration{0, 5 * time.Second, 2 * time.Minute}[s.Choose(3)]
}

// changeSnapshots is a client's change of the agent's snapshots.
func (w *World) changeSnapshots(a *agent.Agent, c *call, now time.Time) error {
	switch c.action {
	case "snapshot", "snapshot of a crash":
		r := agent.SnapshotRequest{Name: c.name}
		if c.action == "snapshot of a crash" {
			r.Consistency = agent.ConsistentAfterCrash
		}
		_, err := a.RequestSnapshot(r, now)
		return err
	case "restore":
		for _, s := range slices.Backward(a.Snapshots) {
			if s.Status == agent.SnapshotReady {
				return a.Restore(s.ID, now)
			}
		}
		return agent.SnapshotNotFound()
	default:
		if len(a.Snapshots) == 0 {
			return agent.SnapshotNotFound()
		}
		return a.DeleteSnapshot(a.Snapshots[0].ID, now)
	}
}

// formerVolume names a volume that a restore replaced.
type formerVolume struct {
	agent  string
	number int64
}

// checkSnapshots checks an agent's snapshots and volumes against the storage.
func (w *World) checkSnapshots(a *agent.Agent) {
	id, n := short(a.ID), w.home(a.ID).namespaces[a.ID]
	for _, s := range a.Snapshots {
		if s.Cause == agent.SnapshotByRestore && s.Status == agent.SnapshotDeleting {
			w.unkept[formerVolume{a.ID, s.Volume}] = true
		}
	}
	if a.StoppedFor != "" && (a.Converged() || !a.WantsPod()) {
		w.violate("hold", "agent %s is %s and stopped for a snapshot without work", id, a.Status)
	}
	if n == nil || n.terminating || a.Status == agent.Deleting || w.deletedByHand[a.ID] {
		return
	}
	former := n
	if w.takes(a) {
		former = w.cellNamed(a.Move.From.Cell).namespaces[a.ID]
	}
	if former == nil {
		return
	}
	for _, s := range a.Snapshots {
		found := former.cuts[s.ID] // until all are adopted
		if s.Volume == a.Volume.Number {
			found = n.cuts[s.ID]
		}
		switch {
		case s.Status == agent.SnapshotReady && w.Cluster.storage.kept[s.Handle] == nil:
			w.violate("snapshots", "a snapshot of agent %s is ready by the record, and its data is gone: %+v", id, s)
		case s.Status == agent.SnapshotReady && (found == nil || !found.ready || found.handle != s.Handle):
			w.violate("snapshots", "a snapshot of agent %s is ready by the record, and not in the storage: %+v", id,
				found)
		case !s.CutAt.IsZero() && s.Status == agent.SnapshotPending && (found == nil || found.cutAt.IsZero()):
			w.violate("snapshots", "a snapshot of agent %s is taken by the record, and not in the storage: %+v", id,
				found)
		}
	}
	w.checkRestored(a, w.home(a.ID).namespaces[a.ID])
}

// checkRestored checks that a running agent has the volume that its record says, with the data of the snapshot.
func (w *World) checkRestored(a *agent.Agent, n *namespace) {
	if a.Status != agent.Running || !a.Converged() || n == nil || n.pod == nil || !n.pod.ready || n.present() == nil {
		return
	}
	v := n.claims[a.Volume.Number]
	if n.pod.volume != a.Volume.Number || v == nil || v.from != a.Volume.Source.Handle {
		w.violate("restore", "agent %s runs with volume %d, and its record names volume %d, made from %q: %+v",
			short(a.ID),
			n.pod.volume, a.Volume.Number, a.Volume.Source.Handle, v)
		return
	}
	if s := n.cutOf(v.from); v.from != "" && s != nil &&
		(len(v.data) <= len(s.data) || !slices.Equal(v.data[:len(s.data)], s.data)) {
		w.violate("restore", "agent %s runs with the data %v, and was restored to %v", short(a.ID), v.data, s.data)
	}
}

// checkQuiet checks a snapshot when the storage cuts it. One that a late worker asks for while it is being deleted does
// not matter: it is deleted again.
func (w *World) checkQuiet(id, snapshot string, s *cut) {
	a, _ := w.Database.Agent(id)
	found, err := a.Snapshot(snapshot)
	if err == nil && found.Status == agent.SnapshotPending && found.Consistency == agent.ConsistentByStop && !s.quiet {
		w.violate("quiet", "the snapshot %q of agent %s was cut while a container used the volume", found.Name,
			short(id))
	}
}

// checkDropped checks that the data of a volume that a worker deletes is in a snapshot, unless a client has deleted
// that.
func (w *World) checkDropped(id string, n *namespace, number int64) {
	a, ok := w.Database.Agent(id)
	if !ok || a.Status == agent.Deleting {
		return
	}
	if number == a.Volume.Number {
		w.violate("kept", "the volume of agent %s was deleted while it is the present one", short(id))
	}
	kept := w.unkept[formerVolume{id, number}]
	for _, s := range n.cuts {
		kept = kept || !s.terminating && s.volume == number && slices.Equal(s.data, n.claims[number].data)
	}
	if !kept {
		w.violate("kept", "volume %d of agent %s was deleted, and no snapshot has its data", number, short(id))
	}
}

// checkSnapshotsAtRest checks that nothing is left to do for an agent's snapshots, and that the storage has nothing
// that the record does not name.
func (w *World) checkSnapshotsAtRest(a agent.Agent) {
	id, n := short(a.ID), w.home(a.ID).namespaces[a.ID]
	for _, s := range a.Snapshots {
		if s.Status == agent.SnapshotPending || s.Status == agent.SnapshotDeleting {
			w.violate("rest", "a snapshot of agent %s stays %s: %+v", id, s.Status, s)
		}
	}
	if len(a.FormerVolumes) > 0 {
		w.violate("rest", "agent %s keeps former volumes: %+v", id, a.FormerVolumes)
	}
	if n == nil || w.deletedByHand[a.ID] {
		return
	}
	for key := range n.cuts {
		if _, err := a.Snapshot(key); err != nil {
			w.violate("leftovers", "the storage has a snapshot of agent %s that its record does not name", id)
		}
	}
	for number := range n.claims {
		if number != a.Volume.Number {
			w.violate("leftovers", "agent %s has the claim of volume %d, and its volume is %d", id, number,
				a.Volume.Number)
		}
	}
}
