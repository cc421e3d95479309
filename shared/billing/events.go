package billing

import (
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

type planData struct {
	Plan         plan.ID `json:"plan"`
	PreviousPlan plan.ID `json:"previous_plan"`
}

type statusData struct {
	Status         organization.Status `json:"status"`
	PreviousStatus organization.Status `json:"previous_status"`
}

// Events lists the events of a commit that takes an account from one state to another.
func Events(before, after Account) []event.Draft {
	var events []event.Draft
	if after.Plan != before.Plan {
		events = append(events, event.New(event.OrganizationPlanChanged, planData{after.Plan, before.Plan}))
	}
	if after.Status != before.Status {
		events = append(events, event.New(event.Type("organization."+string(after.Status)),
			statusData{after.Status, before.Status}))
	}
	return events
}
