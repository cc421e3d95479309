package agent

import (
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/event"
)

type snapshotData struct {
	SnapshotID string        `json:"snapshot_id"`
	Name       string        `json:"name"`
	Cause      SnapshotCause `json:"cause"`
	// SizeBytes is null unless the snapshot is ready, and Problem unless it failed.
	SizeBytes *int64  `json:"size_bytes"`
	Problem   *string `json:"problem"`
}

type restoredData struct {
	SnapshotID string `json:"snapshot_id"`
	Name       string `json:"name"`
}

// snapshotEvents lists the snapshots that became ready, failed or are gone, and the end of a restore.
func snapshotEvents(before, after Agent) []event.Draft {
	var events []event.Draft
	add := func(t event.Type, s Snapshot) {
		data := snapshotData{SnapshotID: s.ID, Name: s.Name, Cause: s.Cause}
		switch t { //nolint:exhaustive // those of snapshots
		case event.SnapshotReady:
			data.SizeBytes = &s.SizeBytes
		case event.SnapshotFailed:
			data.Problem = optional(s.Problem)
		}
		events = append(events, event.New(t, data))
	}
	for _, s := range after.Snapshots {
		former := before.snapshot(s.ID)
		same := former != nil && former.Status == s.Status
		switch {
		case s.Gone() && (former == nil || !former.Gone()):
			add(event.SnapshotDeleted, s)
		case s.Status == SnapshotReady && !same:
			add(event.SnapshotReady, s)
		case s.Status == SnapshotFailed && !same:
			add(event.SnapshotFailed, s)
		}
	}
	if restored := after.snapshot(after.Volume.Source.SnapshotID); before.Volume.Unmade && !after.Volume.Unmade &&
		restored != nil {
		events = append(events, event.New(event.AgentRestored, restoredData{restored.ID, restored.Name}))
	}
	return events
}

// snapshotChanges lists the snapshots that a client asked for and those whose deletion it requested, and what a restore
// made the agent's data of: the snapshot that keeps the former data, and the one that is restored.
func snapshotChanges(before, after Agent) []audit.Change {
	var changes []audit.Change
	for _, s := range after.Snapshots {
		former := before.snapshot(s.ID)
		switch {
		case former == nil && s.Cause == SnapshotByUser:
			changes = append(changes, audit.Change{Field: "snapshots." + s.ID, New: isSet})
		case former != nil && s.Status == SnapshotDeleting && former.Status != SnapshotDeleting:
			changes = append(changes, audit.Change{Field: "snapshots." + s.ID, New: isRemoved})
		}
	}
	if after.replacesVolume(before) {
		c := audit.Change{Field: "volume"}
		for _, s := range after.Snapshots {
			switch {
			case s.ID == after.Volume.Source.SnapshotID:
				c.New = s.Name
			case s.Cause == SnapshotByRestore && s.Volume == before.Volume.Number:
				c.Old = s.Name
			}
		}
		changes = append(changes, c)
	}
	return changes
}
