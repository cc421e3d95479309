package agenttest

import (
	"cmp"
	"reflect"
	"slices"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/plan"
)

// listByStatus lists the agents of a status, of all organizations.
func listByStatus(t testing.TB, w Fixture) {
	org, other := w.Tenant(t, plan.Enterprise), w.Tenant(t, plan.Enterprise)
	create := func(org Tenant, status agent.Status) agent.Agent {
		a, err := w.Records.Update(t.Context(), org.Create(plan.Hobby), func(a *agent.Agent) { a.Status = status })
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	broken := []agent.Agent{
		create(org, agent.Error), create(other, agent.Error), create(org, agent.Error), create(other, agent.Error),
	}
	slices.SortFunc(broken, func(a, b agent.Agent) int { return cmp.Compare(a.ID, b.ID) })
	create(org, agent.Running)
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
		if err != nil || !reflect.DeepEqual(got.Items, row.want) {
			t.Errorf("ListByStatus(%s, after %q, limit %d) = %v, %v, want %v", row.status, row.after, row.limit,
				ids(got.Items), err, ids(row.want))
		}
		wantNext := ""
		if len(row.want) == row.limit {
			wantNext = row.want[row.limit-1].ID
		}
		if got.Next != wantNext {
			t.Errorf("ListByStatus(%s, after %q, limit %d) continues after %q, want %q", row.status, row.after,
				row.limit, got.Next, wantNext)
		}
	}
}
