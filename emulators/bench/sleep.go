package bench

import (
	"context"
	"fmt"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
)

// sleepers is how many agents fall asleep.
const sleepers = 5

// measureSleep counts P23: what Firestore writes for an agent that falls asleep and is woken by a request, compared
// with one that its client pauses and resumes.
func measureSleep(ctx context.Context, l *environment, d *deployment) (Report, error) {
	p, err := newPace(ctx, l, d)
	if err != nil {
		return Report{}, err
	}
	ids, err := p.createPending(ctx, sleepers)
	if err != nil {
		return Report{}, err
	}
	m := newMove(p)
	err = m.changeAll(ctx, ids, func(a *agent.Agent) error {
		return a.Apply(agent.Patch{Sleep: func(agent.SleepPolicy) agent.SleepPolicy {
			return agent.SleepPolicy{AfterSeconds: agent.MinSleepSeconds, WakeOn: []agent.Waker{agent.RequestWakes}}
		}}, time.Now().UTC())
	})
	if err == nil {
		err = m.settleAll(ctx, ids)
	}
	if err != nil {
		return Report{}, err
	}
	d.drain()
	paused, err := m.rest(ctx, ids, agent.Pause)
	if err != nil {
		return Report{}, err
	}
	slept, err := m.rest(ctx, ids, "")
	if err != nil {
		return Report{}, err
	}
	each := func(n int64) float64 { return float64(n) / sleepers }
	return Report{Rows: []Row{{
		ID: "P23", What: "falling asleep and waking",
		Ours: each(slept.Writes), Limit: each(paused.Writes),
		Unit: "Firestore writes", Most: 1,
		Note: fmt.Sprintf("limit: those of pause and resume; %.1f reads, a pause and a resume %.1f", each(slept.Reads),
			each(paused.Reads)),
	}}}, nil
}

// rest takes the pods of agents and starts them again: by calls of their clients, or without a trigger as fronts and
// the router do. It returns what was spent.
func (p *move) rest(ctx context.Context, ids []string, t agent.Trigger) (Tally, error) {
	p.drained()
	err := p.changeAll(ctx, ids, func(a *agent.Agent) error {
		if t == "" {
			return a.FallAsleep("door", time.Now().UTC())
		}
		return a.Act(t, agent.Manual, time.Now().UTC())
	})
	if err != nil {
		return Tally{}, err
	}
	for _, id := range ids {
		if err := p.deliver(ctx, function.AgentNudge{AgentID: id}); err != nil {
			return Tally{}, err
		}
	}
	if t != "" {
		err = p.changeAll(ctx, ids, func(a *agent.Agent) error {
			return a.Act(agent.Resume, agent.Manual, time.Now().UTC())
		})
	}
	for _, id := range ids {
		if err == nil && t == "" {
			err = p.deliver(ctx, function.AgentNudge{AgentID: id, Wake: true})
		}
	}
	if err == nil {
		err = p.settleAll(ctx, ids)
	}
	return p.drained(), err
}
