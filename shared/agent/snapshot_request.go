package agent

import (
	"cmp"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// SnapshotRequest is what a client asks for.
type SnapshotRequest struct {
	Name string
	// Consistency is empty for the best that the agent has.
	Consistency Consistency
	By          string
}

// RequestSnapshot adds a snapshot that a worker takes, and returns it. Errors: Conflict if the agent has no data yet,
// is being deleted, has a snapshot that is not taken yet, too many, or no hook; PaymentRequired if its plan allows no
// more.
func (a *Agent) RequestSnapshot(r SnapshotRequest, now time.Time) (Snapshot, error) {
	if err := a.checkSnapshot(r); err != nil {
		return Snapshot{}, err
	}
	s := a.addSnapshot(Snapshot{
		Name: cmp.Or(r.Name, "Snapshot"), Cause: SnapshotByUser, Consistency: a.consistency(r.Consistency),
		CreatedBy: r.By,
	}, now)
	return s, nil
}

func (a Agent) checkSnapshot(r SnapshotRequest) error {
	switch {
	case a.Status == Deleting:
		return a.conflict("a snapshot")
	case a.copies():
		return agentMoving().WithMeta(a.ConflictMeta())
	case !a.hasData():
		return fault.New(fault.Conflict, "volume_empty",
			"The agent has not run yet with its present volume, so that has no data.").WithMeta(a.ConflictMeta())
	case r.Consistency == ConsistentByHook && a.Image.Quiesce == "":
		return fault.New(fault.Conflict, "hook_missing",
			"The agent's image has no program that makes its volume quiet. Ask for stop or crash.").
			WithMeta(a.ConflictMeta())
	}
	held := 0
	for _, s := range a.Snapshots {
		switch {
		case s.Cause != SnapshotByUser || s.Status == SnapshotDeleting || s.Status == SnapshotFailed:
		case s.Status == SnapshotPending && s.CutAt.IsZero():
			return snapshotInProgress().WithMeta(a.ConflictMeta())
		default:
			held++
		}
	}
	p, err := plan.Get(a.Plan)
	if err != nil {
		return err
	}
	if held >= p.MaxSnapshots {
		return fault.New(fault.PaymentRequired, "plan_capacity_exceeded",
			"The plan %s keeps %d snapshots of an agent that you take. Delete one, or move the agent to a larger plan.",
			p.ID, p.MaxSnapshots).WithMeta(map[string]any{
			"limit": "snapshots", "current": held, "max": p.MaxSnapshots, "plan": p.ID, "upgrade_to": p.Next(),
		})
	}
	return a.checkRoom()
}

// maxSnapshots bounds the snapshots in a record, whose size the database limits: whoever repeats a request that fails
// leaves a snapshot each time, for a week. It is more than plans and a week's restores need.
const maxSnapshots = 150

// checkRoom checks that a client may add a snapshot to the record. Errors: Conflict.
func (a Agent) checkRoom() error {
	if len(a.Snapshots) < maxSnapshots {
		return nil
	}
	return fault.New(fault.Conflict, "snapshots_full",
		"The agent has %d snapshots, with those that failed or are being deleted. Delete some, and retry once they "+
			"are gone.", len(a.Snapshots)).WithMeta(a.ConflictMeta())
}

func snapshotInProgress() *fault.Error {
	return fault.New(fault.Conflict, "snapshot_in_progress",
		"The agent has a snapshot that is not taken yet. Wait for it.")
}

// hasData reports whether the agent may have written to its volume.
func (a Agent) hasData() bool {
	return (a.LastReadyIsolation != "" || a.Volume.Source.SnapshotID != "") && !a.volumeMissing()
}

// consistency decides how the volume is made quiet.
func (a Agent) consistency(asked Consistency) Consistency {
	switch {
	case asked != "":
		return asked
	case a.Image.Quiesce != "" && a.Status == Running:
		return ConsistentByHook
	default:
		return ConsistentByStop
	}
}

// addSnapshot adds a snapshot of the present volume that a worker takes. A pod that must not run until then is
// stopped.
func (a *Agent) addSnapshot(s Snapshot, now time.Time) Snapshot {
	s.ID, s.Status, s.CreatedAt = a.newSnapshotID(s.Cause, now), SnapshotPending, now
	s.Image = a.Image.String()
	if s.Cause != SnapshotByRestore {
		s.Volume = a.Volume.Number
	}
	a.Snapshots = append(a.Snapshots, s)
	a.UpdatedAt = now
	if s.Consistency == ConsistentByStop && s.Cause != SnapshotByRestore && a.WantsPod() && a.StoppedFor == "" {
		a.StoppedFor = s.ID
		a.Warming = a.Warming || a.Status == Running
		a.bumpGeneration(now)
	}
	return s
}

// DeleteSnapshot requests the deletion of a snapshot. A repeat changes nothing. Errors: NotFound, Conflict while the
// agent's pod is stopped for it or its volume is made from it.
func (a *Agent) DeleteSnapshot(id string, now time.Time) error {
	s := a.snapshot(id)
	switch {
	case s == nil || s.Gone():
		return SnapshotNotFound()
	case s.Status == SnapshotDeleting:
		return nil
	case a.StoppedFor == id:
		return snapshotInProgress().WithMeta(a.ConflictMeta())
	case a.keepsSnapshots():
		return agentMoving().WithMeta(a.ConflictMeta())
	case a.exports(id):
		return fault.New(fault.Conflict, "snapshot_in_use",
			"The snapshot is being exported. Wait until the export has ended.").WithMeta(a.ConflictMeta())
	case a.Volume.Unmade && a.Volume.Source.SnapshotID == id:
		return fault.New(fault.Conflict, "snapshot_in_use",
			"The agent's volume is being made from the snapshot. Wait until the agent runs.").WithMeta(a.ConflictMeta())
	}
	s.Status, s.LookAt, a.UpdatedAt = SnapshotDeleting, now, now
	return nil
}
