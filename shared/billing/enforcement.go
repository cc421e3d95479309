package billing

import (
	"cmp"
	"slices"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// Action pauses or resumes one agent because of its organization's account.
type Action struct {
	AgentID string
	// Trigger is agent.Pause or agent.Resume.
	Trigger agent.Trigger
}

// recheckInterval is how often an account with paused agents is checked again: a broken agent may recover and run
// again, or a deleted agent may leave room for another.
const recheckInterval = 5 * time.Minute

// EnforcementActions returns the actions that the account requires now, and the time of the next check. A zero time
// means no check until the account changes.
//
// If the service is withheld, no agent may run. Otherwise the agents that run, or are paused for billing, must fit the
// plan. The oldest come first, so that repeated checks choose the same agents. Enforcement never stops or deletes an
// agent, and never resumes one that its owner paused or stopped.
func (a Account) EnforcementActions(agents []agent.Agent, now time.Time) (actions []Action, next time.Time) {
	allowed, excess := a.agentsWithinLimits(agents, now)
	waiting := false
	for _, g := range agents {
		_, ok := allowed[g.ID]
		switch {
		case ok && pausedForBilling(g):
			actions = append(actions, Action{g.ID, agent.Resume})
		case !ok && g.Status == agent.Running:
			actions = append(actions, Action{g.ID, agent.Pause})
		case !ok && (g.Status == agent.Provisioning || g.Status == agent.Pending):
			waiting = true // an agent can only be paused once it runs
		}
	}
	switch {
	case waiting:
		next = now
	case a.Withheld(now) || excess:
		next = now.Add(recheckInterval)
	case a.Subscription.Status == PastDue:
		next = a.graceEnd()
	}
	return actions, next
}

// agentsWithinLimits returns the ids of the agents that may run. excess reports whether others should run, but may not.
func (a Account) agentsWithinLimits(agents []agent.Agent, now time.Time) (allowed map[string]struct{}, excess bool) {
	allowed = map[string]struct{}{}
	limits, err := a.Limits()
	if err != nil || a.Withheld(now) {
		return allowed, true
	}
	oldest := slices.SortedFunc(slices.Values(agents), func(x, y agent.Agent) int {
		return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.ID, y.ID))
	})
	var used organization.Usage
	for _, g := range oldest {
		if !g.Status.Up() && !pausedForBilling(g) {
			continue
		}
		held, err := g.HeldUsage()
		size, sizeErr := plan.Get(g.Plan)
		if err != nil || sizeErr != nil || a.CheckFits(size) != nil || len(used.Plus(held).Excesses(limits)) > 0 {
			excess = true
			continue
		}
		used = used.Plus(held)
		allowed[g.ID] = struct{}{}
	}
	return allowed, excess
}

// pausedForBilling reports whether enforcement paused the agent.
func pausedForBilling(g agent.Agent) bool {
	return g.Status == agent.Paused && g.StatusReason == agent.Billing
}

// Apply applies the action to the agent's record, if the record still needs it. Errors: Conflict.
func (a Action) Apply(g *agent.Agent, now time.Time) error {
	if a.Trigger == agent.Pause && g.Status == agent.Running || a.Trigger == agent.Resume && pausedForBilling(*g) {
		return g.Act(a.Trigger, agent.Billing, now)
	}
	return nil
}
