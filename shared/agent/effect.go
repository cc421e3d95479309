package agent

import (
	"slices"
	"time"
)

// Restarts reports whether a change replaces the agent's pod. Only an agent that runs or is in error has a pod to
// replace: one that is being provisioned begins with the new state.
func (a Agent) Restarts(before Agent) bool {
	if before.Status != Running && before.Status != Error || !a.WantsPod() {
		return false
	}
	if a.replacesPod() && !slices.Equal(a.Operations, before.Operations) {
		return true
	}
	// A new generation that marks no pod as being replaced is one of the names that the agent may reach.
	marks := a.Warming || a.Status != before.Status || a.StoppedFor != before.StoppedFor
	return a.Generation != before.Generation && marks
}

// holdEstimate is how long a pod usually stays away for a snapshot: it ends, and the storage begins to copy.
const holdEstimate = 5 * time.Second

// Downtime estimates how long the agent does not answer because of a change. A change that replaces the pod takes as
// long as the last start of the agent waited for its pod, and one that stops it for a snapshot some seconds more. ok is
// false if that is unknown, as with a restore, which also makes a volume, or if the change removes the pod of a running
// agent: it then does not answer until it is started again.
func (a Agent) Downtime(before Agent) (estimate time.Duration, ok bool) {
	switch {
	case a.Restarts(before):
		s := before.stage(StageReady)
		if s == nil || s.Status != StageSucceeded || s.StartedAt.IsZero() || a.replacesVolume(before) {
			return 0, false
		}
		if a.StoppedFor != "" && before.StoppedFor == "" {
			estimate = holdEstimate
		}
		return estimate + s.FinishedAt.Sub(s.StartedAt), true
	case before.Status == Running && !a.WantsPod(), a.replacesVolume(before) && before.WantsPod():
		return 0, false
	default:
		return 0, true
	}
}

// replacesVolume reports whether a change gives the agent another volume.
func (a Agent) replacesVolume(before Agent) bool {
	return before.ID != "" && a.Volume.Number != before.Volume.Number
}

// LosesDataSince is the time since when the agent no longer has the data that it wrote, because of a change; zero if it
// keeps all. A snapshot keeps the data.
func (a Agent) LosesDataSince(before Agent) time.Time {
	if s := a.snapshot(a.Volume.Source.SnapshotID); s != nil && a.replacesVolume(before) {
		return s.CutAt
	}
	return time.Time{}
}
