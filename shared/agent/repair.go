package agent

import (
	"cmp"
	"time"

	"agents.example/controlplane/shared/egress"
)

// Repair makes a worker apply the desired state again, because objects of the agent are missing or differ from it. It
// does nothing while a worker has work on the agent. A running agent passes all stages again.
func (a *Agent) Repair(now time.Time) {
	if !a.Converged() || !a.Repairable() {
		return
	}
	if a.Status == Running {
		a.ForgetStages()
		name := a.NameAtStart
		a.replacePod(now)
		a.NameAtStart = name // a repair leaves a pod that is as it must be
		return
	}
	a.bumpGeneration(now)
}

// Repairable reports whether the objects of an agent in its status must match its desired state.
func (a Agent) Repairable() bool {
	return a.Status == Running || a.Status == Paused || a.Status == Stopped
}

// PassGeneration raises the generation above that of the objects on the cluster. It serves records of a database that
// was restored from a backup. The agent may have been restricted since the backup: then the cluster refuses what has no
// generation, as the way out of an agent has for which no rules were ever set.
func (a *Agent) PassGeneration(above int64, now time.Time) {
	a.Generation = max(a.Generation, above)
	a.Egress.Mode = cmp.Or(a.Egress.Mode, egress.Open)
	a.bumpGeneration(now)
}
