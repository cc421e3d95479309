package billing

import (
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// Excess is one thing of which an organization holds more than a plan allows: an amount, or an agent that is too large.
type Excess struct {
	Limit   string `json:"limit"`
	Current any    `json:"current"`
	Max     any    `json:"max"`
	// AgentID and Name are of an agent that is too large.
	AgentID string `json:"agent_id,omitempty"`
	Name    string `json:"name,omitempty"`
}

// Excesses lists what of an organization a plan has no room for.
func (a Account) Excesses(to plan.Plan, agents []agent.Agent) ([]Excess, error) {
	on := organization.Organization{Plan: to.ID}
	limits, err := on.Limits()
	if err != nil {
		return nil, err
	}
	var over []Excess
	for _, e := range a.Usage.Excesses(limits) {
		over = append(over, Excess{Limit: e.Limit, Current: e.Current, Max: e.Max})
	}
	for _, g := range agents {
		size, err := plan.Get(g.Plan)
		if err == nil && g.Status != agent.Deleting && on.CheckFits(size) != nil {
			over = append(over, Excess{Limit: "resource_plan", Current: g.Plan, Max: to.ID, AgentID: g.ID,
				Name: g.Name})
		}
	}
	return over, nil
}

// CheckPlanFits checks that a plan has room for everything that the organization holds. The error is a Conflict with
// the list of what is over.
func (a Account) CheckPlanFits(to plan.Plan, agents []agent.Agent) error {
	over, err := a.Excesses(to, agents)
	if err != nil || len(over) == 0 {
		return err
	}
	return fault.New(fault.Conflict, "usage_over_plan",
		"The organization holds more than the %s plan allows. Delete what is over first; the list is in meta.", to.ID).
		WithMeta(map[string]any{"plan": to.ID, "over": over})
}
