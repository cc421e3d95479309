package billing

import (
	"cmp"
	"slices"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// Action is what becomes of one agent because of its organization's account: Pause or Resume.
type Action struct {
	AgentID string
	Trigger agent.Trigger
}

// relook is how long consequences that stay are left to themselves: an agent may mend by itself and run again, or
// another be deleted.
const relook = 5 * time.Minute

// EnforcementActions lists what becomes of an organization's agents, and when to look again; zero for never, until the
// account changes.
//
// Where the service is withheld nothing runs. Elsewhere what runs, or would but for its bill, has to fit the plan: the
// oldest agents first, so that it is always the same ones that go on. Nothing is stopped or deleted, and what its owner
// paused or stopped stays so.
func (a Account) EnforcementActions(agents []agent.Agent, now time.Time) (moves []Action, next time.Time) {
	kept, left := a.withinLimits(agents, now)
	waiting := false
	for _, g := range agents {
		_, keep := kept[g.ID]
		switch {
		case keep && pausedForBilling(g):
			moves = append(moves, Action{g.ID, agent.Resume})
		case !keep && g.Status == agent.Running:
			moves = append(moves, Action{g.ID, agent.Pause})
		case !keep && (g.Status == agent.Provisioning || g.Status == agent.Pending):
			waiting = true // it can only be paused once it runs
		}
	}
	switch {
	case waiting:
		next = now
	case a.Withheld(now) || left:
		next = now.Add(relook)
	case a.Subscription.Status == PastDue:
		next = a.graceEnd()
	}
	return moves, next
}

// withinLimits chooses the agents that may run, and tells whether others are left that want to.
func (a Account) withinLimits(agents []agent.Agent, now time.Time) (kept map[string]struct{}, left bool) {
	kept = map[string]struct{}{}
	limits, err := a.Limits()
	if err != nil || a.Withheld(now) {
		return kept, true
	}
	oldest := slices.SortedFunc(slices.Values(agents), func(x, y agent.Agent) int {
		return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.ID, y.ID))
	})
	var used organization.Usage
	for _, g := range oldest {
		if !g.Status.Up() && !pausedForBilling(g) {
			continue
		}
		holding, err := g.HeldUsage()
		size, sizeErr := plan.Get(g.Plan)
		if err != nil || sizeErr != nil || a.CheckFits(size) != nil || len(used.Plus(holding).Excesses(limits)) > 0 {
			left = true
			continue
		}
		used = used.Plus(holding)
		kept[g.ID] = struct{}{}
	}
	return kept, left
}

// pausedForBilling reports whether an agent would run if its organization had paid.
func pausedForBilling(g agent.Agent) bool {
	return g.Status == agent.Paused && g.StatusReason == agent.Billing
}

// Apply carries out the move on the record, if it is still to be made. Errors: Conflict.
func (m Action) Apply(g *agent.Agent, now time.Time) error {
	if m.Trigger == agent.Pause && g.Status == agent.Running || m.Trigger == agent.Resume && pausedForBilling(*g) {
		return g.Act(m.Trigger, agent.Billing, now)
	}
	return nil
}
