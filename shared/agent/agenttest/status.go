package agenttest

import (
	"cmp"
	"reflect"
	"slices"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/plan"
)

// withStatus pages through the agents of a status, of all organizations.
func withStatus(t *testing.T, w World) {
	org, other := w.Tenant(t, plan.Enterprise), w.Tenant(t, plan.Enterprise)
	with := func(org Tenant, status agent.Status) agent.Agent {
		a, err := w.Records.Update(t.Context(), org.Create(plan.Hobby), func(a *agent.Agent) { a.Status = status })
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	broken := []agent.Agent{
		with(org, agent.Error), with(other, agent.Error), with(org, agent.Error),
		with(other, agent.Error),
	}
	slices.SortFunc(broken, func(a, b agent.Agent) int { return cmp.Compare(a.ID, b.ID) })
	with(org, agent.Running)
	for _, row := range []struct {
		status agent.Status
		after  string
		limit  int
		want   []agent.Agent
	}{
		{status: agent.Error, after: "", limit: 10, want: broken},
		{status: agent.Error, after: "", limit: 2, want: broken[:2]},
		{status: agent.Error, after: broken[1].ID, limit: 10, want: broken[2:]},
		{status: agent.Error, after: broken[0].ID, limit: 2, want: broken[1:3]},
		{status: agent.Error, after: "00000000-0000-0000-0000-000000000000", limit: 10, want: broken},
		{status: agent.Error, after: broken[3].ID, limit: 10, want: []agent.Agent{}},
		{status: agent.Paused, after: "", limit: 10, want: []agent.Agent{}},
	} {
		got, err := w.Records.ListByStatus(t.Context(), row.status, row.after, row.limit)
		if err != nil || !reflect.DeepEqual(got, row.want) {
			t.Errorf("at most %d that are %s after %q: %v, %v; want %v", row.limit, row.status, row.after, ids(got),
				err, ids(row.want))
		}
	}
}
