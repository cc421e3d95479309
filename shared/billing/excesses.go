package billing

import (
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// Excess is one limit of a plan that an organization exceeds: an amount, or the size of an agent.
type Excess struct {
	Limit   string `json:"limit"`
	Current any    `json:"current"`
	Max     any    `json:"max"`
	// AgentID and Name identify the agent that is too large.
	AgentID string `json:"agent_id,omitempty"`
	Name    string `json:"name,omitempty"`
}

// Excesses lists the limits of a plan that the organization exceeds.
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
			over = append(over, Excess{
				Limit: "resource_plan", Current: g.Plan, Max: to.ID, AgentID: g.ID, Name: g.Name,
			})
		}
	}
	return over, nil
}

// CheckPlanFits checks that the organization exceeds no limit of a plan. The error is a Conflict that lists the
// excesses.
func (a Account) CheckPlanFits(to plan.Plan, agents []agent.Agent) error {
	over, err := a.Excesses(to, agents)
	if err != nil || len(over) == 0 {
		return err
	}
	return fault.New(fault.Conflict, "usage_over_plan",
		"The organization's usage exceeds the %s plan. Delete or reduce what meta.over lists, then retry.", to.ID).
		WithMeta(map[string]any{"plan": to.ID, "over": over})
}
