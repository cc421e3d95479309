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
	return a.Generation != before.Generation || a.replacesPod() && !slices.Equal(a.Operations, before.Operations)
}

// Downtime estimates how long the agent does not answer because of a change. A change that replaces the pod takes as
// long as the last start of the agent waited for its pod. ok is false if that is unknown, or if the change removes the
// pod of a running agent: it then does not answer until it is started again.
func (a Agent) Downtime(before Agent) (estimate time.Duration, ok bool) {
	switch {
	case a.Restarts(before):
		s := before.stage(StageReady)
		if s == nil || s.Status != StageSucceeded || s.StartedAt.IsZero() {
			return 0, false
		}
		return s.FinishedAt.Sub(s.StartedAt), true
	case before.Status == Running && !a.WantsPod():
		return 0, false
	default:
		return 0, true
	}
}
