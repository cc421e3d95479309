package agent_test

import (
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// committed is the agent as a commit leaves it, with the times that follow from the record.
func committed(a agent.Agent) agent.Agent {
	after, _, _ := a.Edit(func(*agent.Agent) error { return nil }, nil)
	return after
}

// cutAt is what a cluster reports of a snapshot that is cut.
func cutAt(minute int) agent.SnapshotState {
	return agent.SnapshotState{CutAt: at(minute), Handle: "handle"}
}

// readyAt is what a cluster reports of a snapshot that is ready.
func readyAt(minute int) agent.SnapshotState {
	s := cutAt(minute)
	s.Ready, s.SizeBytes = true, 40<<30
	return s
}

// taken is the agent with a snapshot that is ready, and the snapshot.
func taken(t *testing.T, a agent.Agent, minute int) (agent.Agent, agent.Snapshot) {
	t.Helper()
	s, err := a.RequestSnapshot(agent.SnapshotRequest{Name: "s", Consistency: agent.ConsistentAfterCrash}, at(minute))
	if err != nil {
		t.Fatal(err)
	}
	a.RecordSnapshot(s.ID, readyAt(minute), at(minute))
	s, err = a.Snapshot(s.ID)
	if err != nil || s.Status != agent.SnapshotReady {
		t.Fatalf("the snapshot is %+v, %v", s, err)
	}
	return a, s
}

func TestSnapshotOwner_IsPartOfTheID(t *testing.T) {
	t.Parallel()
	a, s := taken(t, runningOn(t), 2)
	owner, suffix, ok := agent.SnapshotOwner(s.ID)
	if !ok || owner != a.ID || len(suffix) != 8 {
		t.Errorf("SnapshotOwner(%q) = %q, %q, %t", s.ID, owner, suffix, ok)
	}
	_, other := taken(t, a, 3)
	equal(t, "another snapshot has the same id", other.ID == s.ID, false)
	for _, bad := range []string{
		"", "-", a.ID, s.ID + "a", s.ID[:len(s.ID)-1], strings.ToUpper(s.ID), s.ID[1:], "é" + s.ID[2:],
		s.ID[:25] + "7" + s.ID[26:], // bits that the id does not have
	} {
		if owner, _, ok := agent.SnapshotOwner(bad); ok {
			t.Errorf("SnapshotOwner(%q) = %q, want none", bad, owner)
		}
	}
}

func TestRecordSnapshot_EndsTheHold(t *testing.T) {
	t.Parallel()
	a := runningOn(t)
	s, err := a.RequestSnapshot(agent.SnapshotRequest{}, at(2))
	equal(t, "error", err, nil)
	held := a.Clone()
	a.RecordSnapshot(s.ID, agent.SnapshotState{}, at(3))
	equal(t, "stopped while it is not cut", a.StoppedFor, s.ID)
	a.RecordSnapshot(s.ID, cutAt(4), at(4))
	equal(t, "stopped once it is cut", a.StoppedFor, "")
	equal(t, "the pod is started by another generation", a.Generation, held.Generation+1)
	a.RecordSnapshot(s.ID, readyAt(4), at(5))
	got, _ := a.Snapshot(s.ID)
	equal(t, "status", got.Status, agent.SnapshotReady)
	equal(t, "size", got.SizeBytes, 40<<30)
	equal(t, "bytes", a.SnapshotBytes(), 40<<30)

	late := held.Clone()
	late.RecordSnapshot(s.ID, agent.SnapshotState{Problem: "The disk is busy."}, at(3))
	late.RecordSnapshot(s.ID, agent.SnapshotState{Problem: "The disk is busy."}, at(3).Add(agent.HoldTime-time.Second))
	equal(t, "stopped before the end of the time", late.StoppedFor, s.ID)
	late.RecordSnapshot(s.ID, agent.SnapshotState{Problem: "The disk is busy."}, at(3).Add(agent.HoldTime))
	equal(t, "stopped after it", late.StoppedFor, "")
	failed, _ := late.Snapshot(s.ID)
	equal(t, "status after it", failed.Status, agent.SnapshotFailed)
	equal(t, "problem", failed.Problem, "The disk is busy.")
	equal(t, "a failed one expires", failed.ExpiresAt.IsZero(), false)

	for _, trigger := range []agent.Trigger{agent.Stop, agent.Pause, agent.Delete} {
		ended := held.Clone()
		equal(t, "error", ended.Act(trigger, agent.Manual, at(3)), nil)
		equal(t, string(trigger)+" ends the hold", ended.StoppedFor, "")
	}
}

func TestRestore_ReplacesTheVolumeAndKeepsTheFormerOne(t *testing.T) {
	t.Parallel()
	a, s := taken(t, runningOn(t), 2)
	equal(t, "error", a.Restore(s.ID, at(3)), nil)
	equal(t, "status", a.Status, agent.Provisioning)
	equal(t, "volume", a.Volume, agent.Volume{
		Number: 1, Source: agent.VolumeSource{SnapshotID: s.ID, Handle: "handle"}, Unmade: true,
	})
	equal(t, "may be made", a.KeepsVolume(), false)
	former := a.Snapshots[1]
	equal(t, "cause", former.Cause, agent.SnapshotByRestore)
	equal(t, "its volume", former.Volume, 0)
	equal(t, "the former volume is deleted before it is kept", len(a.LeftoverVolumes(at(60))), 0)
	equal(t, "the source can be deleted", a.DeleteSnapshot(s.ID, at(4)) == nil, false)
	wantKind(t, "a second restore", a.Restore(s.ID, at(4)), fault.Conflict, "restore_in_progress")

	for minute := 5; minute < 24*60; minute += 60 { // however long it takes
		a.RecordSnapshot(former.ID, agent.SnapshotState{}, at(minute))
	}
	kept, _ := a.Snapshot(former.ID)
	equal(t, "status of one that takes a day", kept.Status, agent.SnapshotPending)
	a.RecordSnapshot(former.ID, readyAt(24*60), at(24*60))
	equal(t, "the former volume is deleted once it is kept", len(a.LeftoverVolumes(at(24*60))), 1)

	a.BecameReady(at(10))
	equal(t, "kept from now on", a.KeepsVolume(), true)
	a.RecordFormerVolume(0, true, at(24*60))
	equal(t, "forgotten immediately", len(a.FormerVolumes), 1)
	a.RecordFormerVolume(0, false, at(24*60+1))
	a.RecordFormerVolume(0, true, at(24*60+2))
	a.RecordFormerVolume(0, true, at(24*60+16))
	equal(t, "forgotten before a late call has its effect", len(a.FormerVolumes), 1)
	a.RecordFormerVolume(0, true, at(24*60+17))
	equal(t, "forgotten after it", len(a.FormerVolumes), 0)
}

func TestRestore_CanFollowOneWhoseFormerVolumeIsGivenUp(t *testing.T) {
	t.Parallel()
	a, s := taken(t, runningOn(t), 2)
	equal(t, "error", a.Restore(s.ID, at(3)), nil)
	a.BecameReady(at(4))
	wantKind(t, "a second restore", a.Restore(s.ID, at(5)), fault.Conflict, "restore_in_progress")
	former := a.Snapshots[1].ID
	equal(t, "deleted", a.DeleteSnapshot(former, at(6)), nil)
	equal(t, "the former volume is deleted", len(a.LeftoverVolumes(at(7))), 1)
	a.RecordFormerVolume(0, true, at(7))
	equal(t, "a second restore", a.Restore(s.ID, at(8)), nil)
}

func TestRestore_IsRefused(t *testing.T) {
	t.Parallel()
	a, s := taken(t, runningOn(t), 2)
	wantKind(t, "unknown", a.Restore("x", at(3)), fault.NotFound, "snapshot_not_found")
	held := a.Clone()
	other, err := held.RequestSnapshot(agent.SnapshotRequest{}, at(3))
	equal(t, "error", err, nil)
	wantKind(t, "not ready", held.Restore(other.ID, at(3)), fault.Conflict, "snapshot_not_ready")
	wantKind(t, "while the pod is stopped for another one", held.Restore(s.ID, at(3)), fault.Conflict,
		"snapshot_in_progress")
	_ = a.Act(agent.Delete, "", at(3))
	wantKind(t, "being deleted", a.Restore(s.ID, at(3)), fault.Conflict, "agent_deleting")
}

func TestPrepareSnapshots_TakesOneADayAndKeepsThemAsLongAsThePlanSays(t *testing.T) {
	t.Parallel()
	a := runningOn(t) // of a plan that keeps them for seven days
	due := committed(a).CallsDueAt
	if due.Before(at(0)) || due.After(at(0).Add(24*time.Hour)) {
		t.Fatalf("the first one is due at %v", due)
	}
	other := a
	other.ID = "4fa85f64-5717-4562-b3fc-2c963f66afa6"
	equal(t, "all agents at the same time", committed(other).CallsDueAt.Equal(due), false)
	for day := range 30 {
		now := due.Add(time.Duration(day) * 24 * time.Hour)
		a.PrepareSnapshots(now.Add(-time.Second))
		equal(t, "early", len(a.OpenSnapshots(now.Add(-time.Second))), 0)
		a.PrepareSnapshots(now)
		for _, s := range a.OpenSnapshots(now) {
			if s.Status == agent.SnapshotDeleting {
				a.RecordDeletedSnapshot(s.ID, true, now)
				a.RecordDeletedSnapshot(s.ID, true, now.Add(time.Hour))
				continue
			}
			equal(t, "consistency", s.Consistency, agent.ConsistentAfterCrash)
			a.RecordSnapshot(s.ID, agent.SnapshotState{CutAt: now, Handle: "h", Ready: true}, now)
		}
		if n, want := len(a.Snapshots), min(day+1, 7); n != want {
			t.Errorf("day %d: %d snapshots, want %d", day, n, want)
		}
	}
	// An agent that has no pod has nothing new. Its last one stays.
	_ = a.Act(agent.Stop, agent.Manual, due.Add(30*24*time.Hour-time.Hour))
	a = committed(a)
	a.ServingChanges = append(a.ServingChanges, agent.ServingChange{
		Since: due.Add(29*24*time.Hour - time.Hour), Serving: agent.Idle,
	})
	for day := range 30 {
		now := due.Add(time.Duration(30+day) * 24 * time.Hour)
		a.PrepareSnapshots(now)
		for _, s := range a.OpenSnapshots(now) {
			a.RecordDeletedSnapshot(s.ID, true, now)
			a.RecordDeletedSnapshot(s.ID, true, now.Add(time.Hour))
		}
	}
	equal(t, "snapshots of an agent that has been stopped for a month", len(a.Snapshots), 1)
	equal(t, "its status", a.Snapshots[0].Status, agent.SnapshotReady)
}

// TestPrepareSnapshots_OfAnAgentThatAFormerReleaseStopped: its record does not say since when it has no pod.
func TestPrepareSnapshots_OfAnAgentThatAFormerReleaseStopped(t *testing.T) {
	t.Parallel()
	a := in(agent.Stopped)
	a.LastReadyIsolation, a.ServingChanges = agent.Plain, nil
	for day := range 3 {
		now := at(0).Add(time.Duration(day+1) * 24 * time.Hour)
		a.PrepareSnapshots(now)
		for _, s := range a.OpenSnapshots(now) {
			a.RecordSnapshot(s.ID, agent.SnapshotState{CutAt: now, Handle: "h", Ready: true}, now)
		}
		equal(t, "daily snapshots", len(a.Snapshots), 1)
	}
}

func TestMoveTo_SnapshotsFirst(t *testing.T) {
	t.Parallel()
	a := runningOn(t)
	a.MoveTo("release-1", to("default"), at(2))
	s := a.Snapshots[0]
	equal(t, "cause", s.Cause, agent.SnapshotByRelease)
	equal(t, "image", s.Image, "default@1")
	equal(t, "stopped for it", a.StoppedFor, s.ID)
	a.RecordSnapshot(s.ID, cutAt(3), at(3))
	a.RecordSnapshot(s.ID, readyAt(3), at(4))
	a.BecameReady(at(5))

	plainly := a.Clone()
	plainly.RevertUpdate("default", "it crashed", at(6))
	equal(t, "volume of an image that needs no former data", plainly.Volume.Number, 0)
	a.Image.RestoreOnRevert = true
	a.RevertUpdate("default", "it crashed", at(6))
	equal(t, "version", a.Image.Version, "1")
	equal(t, "volume", a.Volume.Source.SnapshotID, s.ID)
	equal(t, "kept", a.Snapshots[1].Cause, agent.SnapshotByRestore)

	front := runningOn(t)
	front.MoveTo("release-1", to("front"), at(2))
	equal(t, "snapshots before another front", len(front.Snapshots), 0)
}

// TestMoveTo_LeavesWhatTheOrganizationHolds: the commit of a release changes no organization. The snapshots that
// another one replaces count until a worker deletes them.
func TestMoveTo_LeavesWhatTheOrganizationHolds(t *testing.T) {
	t.Parallel()
	a := runningOn(t)
	for minute := 2; minute < 10; minute += 2 {
		held := a.HeldUsage()
		a = edit(t, a, func(a *agent.Agent) { a.MoveTo("release-1", to("default"), at(minute)) })
		equal(t, "what the organization holds", a.HeldUsage(), held)
		a = edit(t, a, func(a *agent.Agent) {
			a.RecordSnapshot(a.StoppedFor, readyAt(minute), at(minute+1))
			a.BecameReady(at(minute + 1))
		})
	}
	equal(t, "bytes of snapshots", a.HeldUsage().SnapshotBytes, 4*40<<30)
	a = edit(t, a, func(a *agent.Agent) { a.PrepareSnapshots(at(10)) })
	equal(t, "bytes of those that stay", a.HeldUsage().SnapshotBytes, 3*40<<30)
}

// TestApply_KeepsTheSnapshotBeforeAnUpdate: it is as old as the update, however long ago the agent last changed.
func TestApply_KeepsTheSnapshotBeforeAnUpdate(t *testing.T) {
	t.Parallel()
	week := 7 * 24 * time.Hour
	now := at(0).Add(2 * week)
	for _, state := range []agent.Trigger{agent.Restart, agent.Stop} {
		a := acted(t, runningOn(t), state, twoVersions("1"))
		a.MarkObserved(at(61))
		a, err := edited(a, twoVersions("2"), func(a *agent.Agent) error {
			return a.Apply(agent.Patch{Image: new("default@2")}, now)
		})
		equal(t, "error", err, nil)
		s := a.Snapshots[0]
		equal(t, string(state)+": cause", s.Cause, agent.SnapshotByRelease)
		equal(t, string(state)+": created", s.CreatedAt, now)
		equal(t, string(state)+": expires", s.ExpiresAt, now.Add(week))
	}
}

// A version whose data a former one cannot read is not run without a snapshot of the data from before it.
func TestMoveTo_GoesBackWithoutASnapshotIfItMust(t *testing.T) {
	t.Parallel()
	for name, must := range map[string]bool{"must": true, "need not": false} {
		a, next := runningOn(t), to("default")
		next.RestoreOnRevert = must
		a.MoveTo("release-1", next, at(2))
		a.RecordSnapshot(a.StoppedFor, agent.SnapshotState{}, at(3))
		a.RecordSnapshot(a.StoppedFor, agent.SnapshotState{}, at(3).Add(agent.HoldTime))
		equal(t, name+": stopped", a.StoppedFor, "")
		equal(t, name+": version", a.Image.Version, map[bool]string{true: "1", false: "2"}[must])
		equal(t, name+": volume", a.Volume.Number, 0)
	}
}

func TestStart_WaitsForASnapshotOfTheQuietVolume(t *testing.T) {
	t.Parallel()
	a := runningOn(t)
	_ = a.Act(agent.Stop, agent.Manual, at(2))
	s, err := a.RequestSnapshot(agent.SnapshotRequest{}, at(3))
	equal(t, "error", err, nil)
	_ = a.Act(agent.Start, "", at(4))
	equal(t, "stopped for it", a.StoppedFor, s.ID)
	a.RecordSnapshot(s.ID, cutAt(5), at(5))
	equal(t, "stopped once it is cut", a.StoppedFor, "")
}

// That no pod uses the volume proves nothing while the cluster may make the former pod again.
func TestOpenSnapshots_OfAQuietVolumeWaitForTheWorkload(t *testing.T) {
	t.Parallel()
	a := runningOn(t)
	_ = a.Act(agent.Pause, agent.Manual, at(2))
	quiet, err := a.RequestSnapshot(agent.SnapshotRequest{}, at(3))
	equal(t, "error", err, nil)
	equal(t, "before the pause is applied", idsOf(a.OpenSnapshots(at(4))), "")
	a.MarkObserved(at(4))
	equal(t, "after it", idsOf(a.OpenSnapshots(at(4))), quiet.ID)

	a, s := taken(t, runningOn(t), 2)
	equal(t, "error", a.Restore(s.ID, at(3)), nil)
	equal(t, "of the former volume, before the restore is applied", idsOf(a.OpenSnapshots(at(4))), "")
	a.Applied(at(4))
	equal(t, "after it", idsOf(a.OpenSnapshots(at(4))), a.Snapshots[1].ID)
}

func idsOf(snapshots []agent.Snapshot) string {
	var ids []string
	for _, s := range snapshots {
		ids = append(ids, s.ID)
	}
	return strings.Join(ids, " ")
}

// A snapshot that must stay although its time has passed gives workers nothing to do.
func TestEdit_LeavesAnExpiredSnapshotInUseAlone(t *testing.T) {
	t.Parallel()
	a, s := taken(t, runningOn(t), 2)
	a.Plan = plan.Hobby // without daily ones
	a.Snapshots[0].ExpiresAt = at(10)
	equal(t, "due once it has expired", committed(a).CallsDueAt, at(10))
	a.Volume.Source.SnapshotID, a.Volume.Unmade = s.ID, true
	equal(t, "due while a volume is made from it", committed(a).CallsDueAt.IsZero(), true)
}
