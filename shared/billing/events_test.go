package billing_test

import (
	"slices"
	"testing"

	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

func TestEvents_ReportPlanAndStatus(t *testing.T) {
	t.Parallel()
	account := func(p plan.ID, s organization.Status) billing.Account {
		return billing.Account{Organization: organization.Organization{Plan: p, Status: s}}
	}
	for _, c := range []struct {
		before, after billing.Account
		want          []string
	}{
		{before: account(plan.Pro, organization.Active), after: account(plan.Pro, organization.Active)},
		{
			before: account(plan.Hobby, organization.Active), after: account(plan.Pro, organization.Active),
			want: []string{`organization.plan_changed {"plan":"pro","previous_plan":"hobby"}`},
		},
		{
			before: account(plan.Pro, organization.Active), after: account(plan.Pro, organization.PastDue),
			want: []string{`organization.past_due {"status":"past_due","previous_status":"active"}`},
		},
		{
			before: account(plan.Pro, organization.PastDue), after: account(plan.Hobby, organization.Active),
			want: []string{
				`organization.plan_changed {"plan":"hobby","previous_plan":"pro"}`,
				`organization.active {"status":"active","previous_status":"past_due"}`,
			},
		},
	} {
		var got []string
		for _, e := range billing.Events(c.before, c.after) {
			got = append(got, string(e.Type)+" "+string(e.Data))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("events %q, want %q", got, c.want)
		}
	}
	for _, s := range organization.Status("").Values() {
		if !slices.Contains(event.Type("").Values(), "organization."+s) {
			t.Errorf("no event type reports the status %s", s)
		}
	}
}
