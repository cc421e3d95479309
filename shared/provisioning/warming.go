package provisioning

import (
	"context"
	"time"

	"agents.example/controlplane/shared/agent"
)

// recentlyReady is how long the health controller looks at the record of a pod that became Ready. It covers a few runs,
// in case one fails.
const recentlyReady = 3 * time.Minute

// warmingWork returns the updates of running agents whose pod began to wait for a machine, or became Ready after that.
// It reads the records of the agents that the run has not read, and only of those whose pod changed recently.
func (o *HealthController) warmingWork(ctx context.Context, s podSnapshot, read []agent.Agent) []func() error {
	var work []func() error
	known := map[string]bool{}
	for _, a := range read {
		known[a.ID] = true
		p, there := s.cells[a.Cell][a.ID]
		if waits := p.waitsForMachine(s.begun); there && (waits || p.Failure == nil) {
			work = append(work, func() error { return o.setWarming(ctx, s, a, waits) })
		}
	}
	for cell, pods := range s.cells {
		for id, p := range pods {
			waits := p.waitsForMachine(s.begun)
			if known[id] || !waits && (p.Failure != nil || s.begun.Sub(p.Since) > recentlyReady) {
				continue
			}
			work = append(work, func() error {
				a, err := o.Records.Load(ctx, id)
				if err != nil || a.Cell != cell {
					return ignoreSuperseded(id, err)
				}
				return o.setWarming(ctx, s, a, waits)
			})
		}
	}
	return work
}

// setWarming updates Warming of a running agent without work.
func (o *HealthController) setWarming(ctx context.Context, s podSnapshot, a agent.Agent, warming bool) error {
	if a.Status != agent.Running || a.Warming == warming || !s.covers(a) {
		return nil
	}
	_, err := o.Records.Update(ctx, a, func(a *agent.Agent) { a.SetWarming(warming, o.Now()) })
	return ignoreSuperseded(a.ID, err)
}
