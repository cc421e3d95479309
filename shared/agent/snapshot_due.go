package agent

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"agents.example/controlplane/shared/plan"
)

// nextSnapshotWork is when a worker must look at the agent's snapshots, former volumes, reader and move; zero if it
// need not.
func (a *Agent) nextSnapshotWork() (at time.Time) {
	if a.Status == Deleting {
		return time.Time{}
	}
	at = earlier(a.nextDaily(), a.nextMoveWork())
	newest := a.newestDaily()
	for i := range a.Snapshots {
		s := &a.Snapshots[i]
		at = earlier(earlier(at, a.lookAt(s)), a.expiry(s, i == newest))
	}
	for _, v := range a.FormerVolumes {
		if a.keptVolume(v.Number) {
			at = earlier(at, v.LookAt)
		}
	}
	return earlier(at, a.Reader.LookAt)
}

// lookAt is when a worker must ask the cluster about a snapshot; zero if it need not. It asks about the one that the
// pod is stopped for as part of the work on the pod.
func (a Agent) lookAt(s *Snapshot) time.Time {
	open := s.Status == SnapshotPending || s.Status == SnapshotDeleting
	if !open || s.ID == a.StoppedFor || a.mayStart(*s) {
		return time.Time{}
	}
	return cmp.Or(s.LookAt, s.CreatedAt)
}

// mayStart reports whether the cluster may still start a pod with the volume of a snapshot that no pod may use. That
// no pod exists proves nothing before the workload is up to date: the cluster makes the former one again.
func (a Agent) mayStart(s Snapshot) bool {
	switch {
	case a.Converged():
		return false
	case a.moves(s):
		return true
	case s.Status != SnapshotPending || s.Consistency != ConsistentByStop || !s.CutAt.IsZero():
		return false
	default:
		return s.Volume == a.Volume.Number || a.AppliedAt.IsZero()
	}
}

// expiry is when a worker must delete a snapshot that has ended; zero while it stays. The newest daily one outlives its
// time while no newer one is ready.
func (a Agent) expiry(s *Snapshot, newestDaily bool) time.Time {
	ended := s.Status == SnapshotReady || s.Status == SnapshotFailed
	if !ended || newestDaily || a.keepsSnapshots() || a.usesSnapshot(*s) {
		return time.Time{}
	}
	return s.ExpiresAt
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// keptVolume reports whether no snapshot of a former volume is left to take.
func (a Agent) keptVolume(number int64) bool {
	return !slices.ContainsFunc(a.Snapshots, func(s Snapshot) bool {
		return s.Cause == SnapshotByRestore && s.Volume == number && s.Status == SnapshotPending
	})
}

// SnapshotsDue reports whether a worker must look at the agent's snapshots now.
func (a Agent) SnapshotsDue(now time.Time) bool {
	at := a.nextSnapshotWork()
	return !at.IsZero() && !at.After(now)
}

// nextDaily is when the next daily snapshot is due; zero if the plan has none, or the agent no data. Each agent has
// its time of the day, so that a fleet's snapshots are spread over the day.
func (a Agent) nextDaily() time.Time {
	p, err := plan.Get(a.Plan)
	if err != nil || p.DailySnapshots == 0 || !a.hasData() || a.keepsSnapshots() {
		return time.Time{}
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(a.ID)) // it never fails
	after := a.CreatedAt
	if a.DailySnapshotAt.After(after) {
		after = a.DailySnapshotAt
	}
	after = after.UTC()
	next := after.Truncate(day).Add(time.Duration(h.Sum32()%daySeconds) * time.Second)
	if !next.After(after) {
		next = next.Add(day)
	}
	return next
}

// newestDaily is the index of the newest daily snapshot that is ready; -1 if there is none.
func (a Agent) newestDaily() int {
	newest := -1
	for i, s := range a.Snapshots {
		if s.Cause == SnapshotBySchedule && s.Status == SnapshotReady &&
			(newest < 0 || s.CutAt.After(a.Snapshots[newest].CutAt)) {
			newest = i
		}
	}
	return newest
}

// PrepareSnapshots adds the daily snapshot that is due, and marks those that have expired. An agent that has had no pod
// since its newest daily one has nothing new.
func (a *Agent) PrepareSnapshots(now time.Time) {
	if next := a.nextDaily(); a.Status != Deleting && !next.IsZero() && !next.After(now) {
		a.DailySnapshotAt = now
		if p, err := plan.Get(a.Plan); err == nil && a.changedSinceDaily() {
			a.addSnapshot(Snapshot{
				Name: "Daily snapshot", Cause: SnapshotBySchedule, Consistency: a.dailyConsistency(),
				ExpiresAt: now.Add(time.Duration(p.DailySnapshots) * day),
			}, now)
		}
	}
	newest := a.newestDaily()
	for i := range a.Snapshots {
		s := &a.Snapshots[i]
		if at := a.expiry(s, i == newest); !at.IsZero() && !at.After(now) {
			s.Status, s.LookAt, a.UpdatedAt = SnapshotDeleting, now, now
		}
	}
}

// usesSnapshot reports whether the agent's volume is being made from a snapshot, or the snapshot is being exported.
func (a Agent) usesSnapshot(s Snapshot) bool {
	return a.Volume.Unmade && a.Volume.Source.SnapshotID == s.ID || a.exports(s.ID)
}

// dailyConsistency never stops a pod: no client asked for it.
func (a Agent) dailyConsistency() Consistency {
	if c := a.consistency(""); c != ConsistentByStop || !a.WantsPod() {
		return c
	}
	return ConsistentAfterCrash
}

// changedSinceDaily reports whether the agent may have written since its newest daily snapshot, or waits for one.
func (a Agent) changedSinceDaily() bool {
	for _, s := range a.Snapshots {
		if s.Cause == SnapshotBySchedule && s.Status == SnapshotPending {
			return false
		}
	}
	newest := a.newestDaily()
	if newest < 0 || a.WantsPod() || a.Snapshots[newest].Volume != a.Volume.Number {
		return true
	}
	history := a.ServingHistory()
	if len(history) == 0 { // a release that recorded none took the pod away, before there were snapshots
		return false
	}
	return LastServing(history) != Idle || !history[len(history)-1].Since.Before(a.Snapshots[newest].CutAt)
}

// RecordSnapshot records what the cluster reports of a snapshot that is pending. It ends the wait of a pod that is
// stopped for it.
func (a *Agent) RecordSnapshot(id string, seen SnapshotState, now time.Time) {
	s := a.snapshot(id)
	if s == nil || s.Status != SnapshotPending || a.Status == Deleting {
		return
	}
	if s.RequestedAt.IsZero() {
		s.RequestedAt = now
	}
	s.Problem = seen.Problem
	if s.CutAt.IsZero() && !seen.CutAt.IsZero() {
		s.CutAt, s.Handle, a.UpdatedAt = seen.CutAt, seen.Handle, now
		if !a.moves(*s) {
			a.endHold(id, now)
		}
	}
	if moves := a.moves(*s); seen.Ready && (!moves || a.departs()) {
		s.Status, s.ReadyAt, s.SizeBytes, s.Problem = SnapshotReady, now, seen.SizeBytes, ""
		s.LookAt, a.UpdatedAt = time.Time{}, now
		if moves {
			a.depart(now)
			return
		}
		a.endHold(id, now)
		return
	}
	s.LookAt = nextSnapshotLook(s.RequestedAt, now)
	if a.snapshotExpired(*s, now) {
		a.failSnapshot(s, cmp.Or(seen.Problem, "The cluster's storage did not take the snapshot in time."), now)
	}
}

// MissQuiet records that a snapshot was asked for while a program of the image kept the volume quiet, and was not cut
// by the end of that. It may be cut at any time.
func (a *Agent) MissQuiet(id string) {
	s := a.snapshot(id)
	if s != nil && s.Status == SnapshotPending && s.Consistency == ConsistentByHook && s.CutAt.IsZero() {
		s.Consistency = ConsistentAfterCrash
	}
}

// AwaitSnapshot records that a snapshot could not be asked for yet, and why.
func (a *Agent) AwaitSnapshot(id, problem string, now time.Time) {
	if s := a.snapshot(id); s != nil && s.Status == SnapshotPending {
		s.Problem = problem
		s.LookAt = nextSnapshotLook(s.CreatedAt, now)
		if a.snapshotExpired(*s, now) {
			a.failSnapshot(s, problem, now)
		}
	}
}

// snapshotExpired reports whether a snapshot has taken too long. The volume that a restore replaced is kept until its
// snapshot is ready, however long that takes.
func (a Agent) snapshotExpired(s Snapshot, now time.Time) bool {
	switch {
	case s.Cause == SnapshotByRestore:
		return false
	case a.moves(s) && !s.CutAt.IsZero():
		return now.Sub(s.RequestedAt) >= copyTime
	case a.StoppedFor == s.ID:
		return !s.RequestedAt.IsZero() && now.Sub(s.RequestedAt) >= HoldTime
	default:
		return now.Sub(cmp.Or(s.RequestedAt, s.CreatedAt)) >= snapshotTimeout
	}
}

func (a *Agent) failSnapshot(s *Snapshot, problem string, now time.Time) {
	s.Status, s.Problem, s.ExpiresAt = SnapshotFailed, problem, now.Add(failureRetention)
	s.LookAt, a.UpdatedAt = time.Time{}, now
	id, cause := s.ID, s.Cause
	if a.Move.State == MoveCopying && a.Move.SnapshotID == id {
		a.endCopy(problem, now)
	}
	a.endHold(id, now)
	if cause == SnapshotByRelease && a.Image.Update.Open() && a.Image.RestoreOnRevert {
		a.RevertUpdate(a.imageID(), "no snapshot could be taken before the update: "+problem, now)
	}
}

// endHold lets the pod start again that was stopped for a snapshot.
func (a *Agent) endHold(id string, now time.Time) {
	if a.StoppedFor == id && id != "" {
		a.StoppedFor = ""
		a.holdForSnapshot()
		a.bumpGeneration(now)
	}
}

// nextSnapshotLook is when a worker looks again: the longer it takes, the later.
func nextSnapshotLook(since, now time.Time) time.Time {
	return now.Add(min(max(now.Sub(since)/2, minWait/6), maxSnapshotLook))
}

// RecordDeletedSnapshot records whether the cluster has a snapshot that is being deleted. One that stays gone leaves
// the record.
func (a *Agent) RecordDeletedSnapshot(id string, gone bool, now time.Time) {
	i := slices.IndexFunc(a.Snapshots, func(s Snapshot) bool { return s.ID == id && s.Status == SnapshotDeleting })
	if i < 0 {
		return
	}
	s := &a.Snapshots[i]
	if s.GoneAt, s.LookAt = seenGone(s.GoneAt, gone, now); s.LookAt.IsZero() {
		a.Snapshots = slices.Delete(slices.Clone(a.Snapshots), i, i+1)
	}
}

// RunsPod reports whether the agent's pod must exist now: it is wanted, and not stopped for a snapshot.
func (a Agent) RunsPod() bool { return a.WantsPod() && a.StoppedFor == "" }

// OpenSnapshots lists the snapshots that a worker must ask the cluster about now.
func (a Agent) OpenSnapshots(now time.Time) (open []Snapshot) {
	for _, s := range a.Snapshots {
		if at := a.lookAt(&s); !at.IsZero() && !at.After(now) {
			open = append(open, s)
		}
	}
	return open
}

// LeftoverVolumes lists the former volumes that a worker must delete.
func (a Agent) LeftoverVolumes(now time.Time) (numbers []int64) {
	for _, v := range a.FormerVolumes {
		if a.keptVolume(v.Number) && !v.LookAt.After(now) {
			numbers = append(numbers, v.Number)
		}
	}
	return numbers
}

// AwaitHold records that the agent's pod is still stopped for a snapshot, and when a worker looks again. A snapshot in
// a status that only a later release knows stops it for HoldTime at most.
func (a *Agent) AwaitHold(now time.Time) {
	if a.StoppedFor == "" || a.Converged() {
		return
	}
	s := a.snapshot(a.StoppedFor)
	if s != nil && s.Status != SnapshotPending && now.Sub(cmp.Or(s.RequestedAt, s.CreatedAt)) >= HoldTime {
		a.endHold(s.ID, now)
		return
	}
	a.Attempts, a.RetryAt, a.Lease = 0, time.Time{}, Lease{}
	a.WorkDueAt = now.Add(minWait / 6)
}

// RefuseSnapshot records that a snapshot cannot be taken, whatever a worker does. The volume that a restore replaced is
// kept nevertheless, until someone has repaired the reason.
func (a *Agent) RefuseSnapshot(id, problem string, now time.Time) {
	s := a.snapshot(id)
	switch {
	case s == nil:
		a.endHold(id, now)
	case s.Status != SnapshotPending:
	case s.Cause == SnapshotByRestore:
		a.AwaitSnapshot(id, problem, now)
	default:
		a.failSnapshot(s, problem, now)
	}
}
