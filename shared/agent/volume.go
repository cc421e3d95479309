package agent

import (
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
}

// Foreign reports whether the volume is made from a snapshot of another agent.
func (v Volume) Foreign(agentID string) bool {
	owner, _, ok := SnapshotOwner(v.Source.SnapshotID)
	return ok && owner != agentID
}

// Restore replaces the agent's volume by one with the data of a snapshot, and starts the agent. The former volume is
// kept as a snapshot. Errors: NotFound; Conflict if the snapshot is not ready, or another one or a restore is in
// progress, or if the agent's status allows no start.
func (a *Agent) Restore(id string, now time.Time) error {
	s := a.snapshot(id)
	switch {
	case a.Status == Deleting:
		return a.conflict("restore")
	case s == nil:
		return SnapshotNotFound()
	case s.Status != SnapshotReady:
		return fault.New(fault.Conflict, "snapshot_not_ready",
			"The snapshot is %s. Only one that is ready can be restored.", s.Status).WithMeta(a.ConflictMeta())
	case a.StoppedFor != "":
		return snapshotInProgress().WithMeta(a.ConflictMeta())
	case len(a.FormerVolumes) > 0:
		return fault.New(fault.Conflict, "restore_in_progress",
			"The volume of the last restore is still being kept as a snapshot. Wait for it.").
			WithMeta(a.ConflictMeta())
	}
	a.interruptUpdates()
	a.replaceVolume(*s, now)
	a.Rollout++
	a.startProvisioning(now)
	return nil
}

// replaceVolume makes a snapshot of the agent's the source of its next volume.
func (a *Agent) replaceVolume(s Snapshot, now time.Time) {
	former := a.Volume.Number
	a.FormerVolumes = append(a.FormerVolumes, FormerVolume{Number: former, LookAt: now})
	a.addSnapshot(Snapshot{
		Name: "Before the restore of " + s.Name, Cause: SnapshotByRestore, Consistency: ConsistentByStop,
		Volume: former, ExpiresAt: now.Add(restoreRetention),
	}, now)
	a.Volume = Volume{
		Number: former + 1, Source: VolumeSource{SnapshotID: s.ID, Handle: s.Handle}, Unmade: true,
	}
	for _, name := range []StageName{StagePolicy, StageStorage} {
		if stage := a.stage(name); stage != nil {
			*stage = Stage{Name: name, Status: StagePending, Attempt: stage.Attempt}
		}
	}
}

// RecordFormerVolumeGone records that the cluster no longer has a volume that a restore replaced.
func (a *Agent) RecordFormerVolumeGone(number int64) {
	kept := a.FormerVolumes[:0:0]
	for _, v := range a.FormerVolumes {
		if v.Number != number {
			kept = append(kept, v)
		}
	}
	a.FormerVolumes = kept
}
