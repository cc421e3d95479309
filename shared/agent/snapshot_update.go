package agent

import (
	"slices"
	"time"

	"agents.example/controlplane/shared/image"
)

// snapshotBeforeUpdate adds the snapshot that precedes another version of the agent's image. The pod of the version
// starts once it is cut.
func (a *Agent) snapshotBeforeUpdate(s *Software, to image.Choice, now time.Time) {
	if s != &a.Image || s.Reference == "" || !a.hasData() || a.StoppedFor != "" || a.Status == Deleting {
		return
	}
	kept := 0
	for i := range slices.Backward(a.Snapshots) {
		former := &a.Snapshots[i]
		if former.Cause != SnapshotByRelease || former.Status == SnapshotDeleting || a.usesSnapshot(*former) {
			continue
		}
		if kept++; kept >= maxReleaseSnapshots {
			former.Status, former.LookAt = SnapshotDeleting, now
		}
	}
	a.addSnapshot(Snapshot{
		Name: "Before the update to " + to.String(), Cause: SnapshotByRelease, Consistency: ConsistentByStop,
		ExpiresAt: now.Add(releaseRetention),
	}, now)
}

// holdForUpdate keeps a pod that starts away until the snapshot is cut that precedes its version.
func (a *Agent) holdForUpdate() {
	for i := range a.Snapshots {
		s := &a.Snapshots[i]
		if s.Cause == SnapshotByRelease && s.Status == SnapshotPending && s.CutAt.IsZero() && s.Volume == a.Volume.Number {
			a.StoppedFor, s.RequestedAt = s.ID, time.Time{}
		}
	}
}

// restorePoint is the newest snapshot of the volume from before an update that replaced an image; nil if there is none.
func (a *Agent) restorePoint(ran image.Choice) (point *Snapshot) {
	for i := range a.Snapshots {
		s := &a.Snapshots[i]
		if s.Cause == SnapshotByRelease && !s.CutAt.IsZero() && s.Status != SnapshotDeleting &&
			s.Status != SnapshotFailed && s.Volume == a.Volume.Number && s.Image == ran.String() {
			point = s
		}
	}
	return point
}
