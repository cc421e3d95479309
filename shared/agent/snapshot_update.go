package agent

import (
	"slices"
	"time"

	"agents.example/controlplane/shared/image"
)

// snapshotBeforeUpdate adds the snapshot that precedes another version of the agent's image. The pod of the version
// starts once it is cut.
func (a *Agent) snapshotBeforeUpdate(s *Software, to image.Choice, now time.Time) {
	if s != &a.Image || s.Reference == "" || !a.hasData() || a.keepsSnapshots() || a.StoppedFor != "" ||
		a.Status == Deleting {
		return
	}
	kept := 0
	for i := range slices.Backward(a.Snapshots) {
		former := &a.Snapshots[i]
		if former.Cause != SnapshotByRelease || former.Status == SnapshotDeleting || a.usesSnapshot(*former) {
			continue
		}
		// Its deletion changes what the organization holds, and the commit of a release does not.
		if kept++; kept >= maxReleaseSnapshots {
			former.ExpiresAt = now
		}
	}
	a.addSnapshot(Snapshot{
		Name: "Before the update to " + to.String(), Cause: SnapshotByRelease, Consistency: ConsistentByStop,
		ExpiresAt: now.Add(releaseRetention),
	}, now)
}

// holdForSnapshot keeps a pod that would start away until a snapshot of the quiet volume is cut. A daily one, which
// no client asked for, does without that.
func (a *Agent) holdForSnapshot() {
	for i := range a.Snapshots {
		s := &a.Snapshots[i]
		if s.Status != SnapshotPending || !s.CutAt.IsZero() && !a.moves(*s) || s.Consistency != ConsistentByStop ||
			s.Volume != a.Volume.Number || s.Cause == SnapshotByRestore {
			continue
		}
		if s.Cause == SnapshotBySchedule {
			s.Consistency = ConsistentAfterCrash
			continue
		}
		if a.StoppedFor == "" {
			a.StoppedFor = s.ID
			if s.CutAt.IsZero() {
				s.RequestedAt = time.Time{}
			}
		}
	}
}

// restorePoint is the newest snapshot of the volume from before an update that replaced an image; nil if there is none.
func (a *Agent) restorePoint(ran image.Choice) (point *Snapshot) {
	if a.keepsSnapshots() {
		return nil
	}
	for i := range a.Snapshots {
		s := &a.Snapshots[i]
		if s.Cause == SnapshotByRelease && !s.CutAt.IsZero() && s.Status != SnapshotDeleting &&
			s.Status != SnapshotFailed && s.Volume == a.Volume.Number && s.Image == ran.String() {
			point = s
		}
	}
	return point
}
