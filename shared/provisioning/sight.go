package provisioning

import (
	"context"
	"time"

	"agents.example/controlplane/shared/agent"
)

// recentlyReady is how long the health controller looks at the record of a pod that became Ready. It covers a few runs,
// in case one fails.
const recentlyReady = 3 * time.Minute

// see records the pod of a list that began at a time. No change that the list shows is later, whatever the clock of the
// agent's machine says.
func (p Pod) see(a *agent.Agent, begun time.Time) {
	since := p.Since
	if since.After(begun) {
		since = begun
	}
	a.See(agent.PodSight{
		UID: p.UID, Restarts: p.Restarts, Ready: p.Failure == nil, Since: since, Lost: p.Lost,
	})
}

// sightWork returns the updates of agents whose pod ceased to serve, began to wait for a machine, or became Ready after
// that. It reads the records of the agents that the run has not read, and only of those whose pod is not Ready or
// became so recently.
func (o *HealthController) sightWork(ctx context.Context, s podSnapshot, read []agent.Agent) []func() error {
	var work []func() error
	known := map[string]bool{}
	for _, a := range read {
		known[a.ID] = true
		if p, there := s.cells[a.Cell][a.ID]; there && o.changes(s, &a, p) {
			work = append(work, func() error { return o.sight(ctx, s, a, p) })
		}
	}
	for cell, pods := range s.cells {
		for id, p := range pods {
			age := s.begun.Sub(p.Since)
			if known[id] || p.Failure == nil && age > recentlyReady || p.broken(s.begun) != nil {
				continue
			}
			work = append(work, func() error {
				a, err := o.Records.Load(ctx, id)
				if err != nil || a.Cell != cell {
					return ignoreSuperseded(id, err)
				}
				return o.sight(ctx, s, a, p)
			})
		}
	}
	return work
}

// changes reports whether a look at the pod of an agent without work changes its record.
func (o *HealthController) changes(s podSnapshot, a *agent.Agent, p Pod) bool {
	if !s.covers(a) || a.Status == agent.Running && p.broken(s.begun) != nil {
		return false // breakAgent records it
	}
	_, changed, err := a.Edit(func(a *agent.Agent) error { o.look(s, a, p); return nil }, nil)
	return changed && err == nil
}

// look changes the record of an agent without work after a look at its pod: whether it serves, how often it was
// restarted, and whether the dashboard is warming up because the pod waits for a machine.
func (o *HealthController) look(s podSnapshot, a *agent.Agent, p Pod) {
	if waits := p.waitsForMachine(s.begun); waits || p.Failure == nil {
		a.SetWarming(waits, o.Now())
	}
	if p.Failure == nil || s.begun.Sub(p.Since) >= disturbance {
		p.see(a, s.begun)
	}
}

// sight records a look, if that changes the record.
func (o *HealthController) sight(ctx context.Context, s podSnapshot, a agent.Agent, p Pod) error {
	if !o.changes(s, &a, p) {
		return nil
	}
	_, err := o.Records.Update(ctx, a, func(a *agent.Agent) { o.look(s, a, p) })
	return ignoreSuperseded(a.ID, err)
}
