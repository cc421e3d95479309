package agent

import (
	"slices"
	"time"

	"agents.example/controlplane/shared/fault"
)

// Volume is one of the volumes that an agent had, the present one in its record.
type Volume struct {
	// Number counts the volumes of the agent, from 0. A pod names its volume by it, so that no slow worker can give the
	// pod another one.
	Number int64
	// Source is what the volume is made from; zero for an empty one.
	Source VolumeSource
	// Unmade is true until the agent first runs with a volume that replaces another one.
	Unmade bool
}

// VolumeSource is a snapshot, of the agent itself or of the one that it is a clone of.
type VolumeSource struct {
	SnapshotID string
	// Handle is what the storage of the cells calls the snapshot.
	Handle string
}

// FormerVolume is a volume that a restore replaced. It is deleted once a snapshot has its data.
type FormerVolume struct {
	Number int64
	// LookAt is when a worker looks again whether it is gone.
	LookAt time.Time
	// GoneAt is when it was first observed gone; see lateness.
	GoneAt time.Time
}

// Foreign reports whether the volume is made from a snapshot of another agent.
func (v Volume) Foreign(agentID string) bool {
	owner, _, ok := SnapshotOwner(v.Source.SnapshotID)
	return ok && owner != agentID
}

// Restore replaces the agent's volume by one with the data of a snapshot, and starts the agent. The former volume is
// kept as a snapshot. Errors: NotFound; Conflict if the snapshot is not ready, or another one or a restore is in
// progress, if there are too many, or if the agent's status allows no start.
func (a *Agent) Restore(id string, now time.Time) error {
	s := a.snapshot(id)
	switch {
	case a.Status == Deleting:
		return a.conflict("restore")
	case s == nil || s.Gone():
		return SnapshotNotFound()
	case s.Status != SnapshotReady:
		return fault.New(fault.Conflict, "snapshot_not_ready",
			"The snapshot is %s. Only one that is ready can be restored.", s.Status).WithMeta(a.ConflictMeta())
	case a.keepsSnapshots():
		return agentMoving().WithMeta(a.ConflictMeta())
	case a.StoppedFor != "":
		return snapshotInProgress().WithMeta(a.ConflictMeta())
	case slices.ContainsFunc(a.FormerVolumes, func(v FormerVolume) bool { return v.GoneAt.IsZero() }):
		return fault.New(fault.Conflict, "restore_in_progress",
			"The volume before the last restore is still being kept as a snapshot. Wait for it, or delete that "+
				"snapshot, and the data of that volume with it.").
			WithMeta(a.ConflictMeta())
	case a.volumeMissing():
		return fault.New(fault.Conflict, "volume_unmade",
			"The agent's present volume is not made yet, so it cannot be kept. Start the agent first.").
			WithMeta(a.ConflictMeta())
	}
	if err := a.checkRoom(); err != nil {
		return err
	}
	a.interruptUpdates()
	a.replaceVolume(*s, now)
	a.Rollout++
	a.startProvisioning(now)
	return nil
}

// volumeMissing reports whether the agent's volume may not exist yet, because nothing has asked for it.
func (a Agent) volumeMissing() bool {
	return a.Volume.Unmade && (!a.WantsPod() ||
		a.BeingProvisioned() && slices.Contains(a.Unfinished(), StageStorage))
}

// volumeFrom is the agent's next volume, which is made from a snapshot.
func (a Agent) volumeFrom(s Snapshot) Volume {
	return Volume{
		Number: a.Volume.Number + 1, Source: VolumeSource{SnapshotID: s.ID, Handle: s.Handle}, Unmade: true,
	}
}

// replaceVolume makes a snapshot of the agent's the source of its next volume.
func (a *Agent) replaceVolume(s Snapshot, now time.Time) {
	former := a.Volume.Number
	a.FormerVolumes = append(a.FormerVolumes, FormerVolume{Number: former, LookAt: now})
	a.addSnapshot(Snapshot{
		Name: "Before the restore of " + s.Name, Cause: SnapshotByRestore, Consistency: ConsistentByStop,
		Volume: former, ExpiresAt: now.Add(restoreRetention),
	}, now)
	a.Volume = a.volumeFrom(s)
	a.forgetStages(StagePolicy, StageStorage)
}

// RecordFormerVolume records whether the cluster has a volume that a restore replaced.
func (a *Agent) RecordFormerVolume(number int64, gone bool, now time.Time) {
	i := slices.IndexFunc(a.FormerVolumes, func(v FormerVolume) bool { return v.Number == number })
	if i < 0 {
		return
	}
	v := &a.FormerVolumes[i]
	if v.GoneAt, v.LookAt = seenGone(v.GoneAt, gone, now); v.LookAt.IsZero() {
		a.FormerVolumes = slices.Delete(slices.Clone(a.FormerVolumes), i, i+1)
	}
}

// seenGone returns since when something is gone that is being deleted, and when a worker looks again: never once it
// stays gone.
func seenGone(since time.Time, gone bool, now time.Time) (goneAt, look time.Time) {
	switch {
	case !gone:
		return time.Time{}, now.Add(minWait)
	case since.IsZero():
		return now, now.Add(lateness)
	case now.Sub(since) < lateness:
		return since, since.Add(lateness)
	default:
		return since, time.Time{}
	}
}
