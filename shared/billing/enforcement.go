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
	// Trigger is agent.Withhold or agent.Resume.
	Trigger agent.Trigger
}

// recheckInterval is how often an account with paused agents is checked again: a deleted agent may leave room for
// another.
const recheckInterval = 5 * time.Minute

// EnforcementActions returns the actions that the account requires now, and the time of the next check. A zero time
// means no check until the account changes.
//
// If the service is withheld, no agent may run. Otherwise the agents that run, are on the way there, are broken or are
// paused for billing must fit the plan. Broken agents count because their pods run. Enforcement never stops or deletes
// an agent, and never resumes one that its owner paused or stopped. It leaves agents as they are if it cannot tell
// whether they fit, because this release does not know a plan; see UnknownPlans.
func (a Account) EnforcementActions(agents []agent.Agent, now time.Time) (actions []Action, next time.Time) {
	allowed, excess := a.agentsWithinLimits(agents, now)
	for _, g := range agents {
		_, ok := allowed[g.ID]
		switch {
		case !a.Withheld(now) && a.unknownPlan(g):
		case ok && pausedForBilling(g):
			actions = append(actions, Action{g.ID, agent.Resume})
		case !ok && mayRun(g):
			actions = append(actions, Action{g.ID, agent.Withhold})
		}
	}
	switch {
	case a.Withheld(now) || excess:
		next = now.Add(recheckInterval)
	case a.Subscription.Status == PastDue:
		next = a.graceEnd()
	}
	return actions, next
}

// UnknownPlans lists the plans of the organization and its agents that this release does not know, such as plans of a
// later release after a roll-back.
func (a Account) UnknownPlans(agents []agent.Agent) []plan.ID {
	var unknown []plan.ID
	for _, id := range append([]plan.ID{a.Plan}, agentPlans(agents)...) {
		if _, err := plan.Get(id); err != nil && !slices.Contains(unknown, id) {
			unknown = append(unknown, id)
		}
	}
	return unknown
}

func agentPlans(agents []agent.Agent) []plan.ID {
	plans := make([]plan.ID, len(agents))
	for i, g := range agents {
		plans[i] = g.Plan
	}
	return plans
}

// unknownPlan reports whether it can't be told if an agent fits the organization's plan.
func (a Account) unknownPlan(g agent.Agent) bool { return len(a.UnknownPlans([]agent.Agent{g})) > 0 }

// agentsWithinLimits returns the ids of the agents that may run. excess reports whether others should run, but may not.
func (a Account) agentsWithinLimits(agents []agent.Agent, now time.Time) (allowed map[string]struct{}, excess bool) {
	allowed = map[string]struct{}{}
	limits, err := a.Limits()
	if err != nil || a.Withheld(now) {
		return allowed, true
	}
	var used organization.Usage
	for _, g := range inOrderOfClaims(agents) {
		held := g.HeldUsage()
		size, err := plan.Get(g.Plan)
		if err != nil || a.CheckFits(size) != nil || len(used.Plus(held).Excesses(limits)) > 0 {
			excess = true
			continue
		}
		used = used.Plus(held)
		allowed[g.ID] = struct{}{}
	}
	return allowed, excess
}

// inOrderOfClaims lists the agents that have or want a pod, in the order in which they may take what the plan has:
// those that are up, then those that are broken, then those that sleep or are paused for billing, and the oldest of
// each first.
// In this order repeated checks choose the same agents: what was chosen is up, and what was not is paused.
func inOrderOfClaims(agents []agent.Agent) []agent.Agent {
	claim := func(g agent.Agent) int {
		switch {
		case g.Status.Up():
			return 0
		case g.Status == agent.Error:
			return 1
		default:
			return 2
		}
	}
	claims := slices.DeleteFunc(slices.Clone(agents), func(g agent.Agent) bool {
		return !mayRun(g) && !pausedForBilling(g)
	})
	slices.SortFunc(claims, func(x, y agent.Agent) int {
		return cmp.Or(cmp.Compare(claim(x), claim(y)), x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.ID, y.ID))
	})
	return claims
}

// mayRun reports whether the agent has or wants a pod, or anyone's request gives it one.
func mayRun(g agent.Agent) bool { return g.WantsPod() || g.Asleep() }

// pausedForBilling reports whether enforcement paused the agent.
func pausedForBilling(g agent.Agent) bool {
	return g.Status == agent.Paused && g.StatusReason == agent.Billing
}

// Apply applies the action to the agent's record, if the record still needs it. Errors: Conflict.
func (a Action) Apply(g *agent.Agent, now time.Time) error {
	if a.Trigger == agent.Withhold && mayRun(*g) || a.Trigger == agent.Resume && pausedForBilling(*g) {
		return g.Act(a.Trigger, agent.Billing, now)
	}
	return nil
}
