package agent_test

import (
	"cmp"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// usageOf returns what an agent on a plan holds by the sizes of this release.
func usageOf(t *testing.T, id plan.ID) organization.Usage {
	t.Helper()
	p, err := plan.Get(id)
	if err != nil {
		t.Fatal(err)
	}
	return organization.Usage{
		Agents: 1, CPUMillis: p.CPULimitMillicores, MemoryBytes: p.MemoryBytes(), StorageBytes: p.StorageBytes(),
	}
}

// A release may know other sizes of a plan than the one that charged for an agent, or not know the plan.
func TestHeldUsage_IsWhatWasCharged(t *testing.T) {
	t.Parallel()
	charged := organization.Usage{Agents: 1, CPUMillis: 7, MemoryBytes: 8, StorageBytes: 9}
	stopped := organization.Usage{Agents: 1, StorageBytes: 9}
	pro, business := usageOf(t, plan.Pro), usageOf(t, plan.Business)
	started := pro
	started.StorageBytes = charged.StorageBytes
	to := func(s agent.Status) func(*agent.Agent) { return func(a *agent.Agent) { a.Status = s } }
	for name, row := range map[string]struct {
		plan        plan.ID // pro if it is empty
		held        organization.Usage
		status      agent.Status
		change      func(*agent.Agent)
		want, after organization.Usage
	}{
		"kept": {held: charged, status: agent.Running, change: to(agent.Paused), want: charged, after: charged},
		"given back by a stop": {
			held: charged, status: agent.Running, change: to(agent.Stopped), want: charged, after: stopped,
		},
		"given back by a deletion": {held: charged, status: agent.Running, change: to(agent.Deleting), want: charged},
		"taken by a start": {
			held: stopped, status: agent.Stopped, change: to(agent.Provisioning), want: stopped, after: started,
		},
		"stopped by a release without amounts": {
			held: charged, status: agent.Stopped, change: to(agent.Provisioning), want: stopped, after: started,
		},
		"of another plan": {
			held: charged, status: agent.Running, want: charged, after: business,
			change: func(a *agent.Agent) { a.Plan = plan.Business },
		},
		"without amounts": {status: agent.Running, change: to(agent.Paused), want: pro, after: pro},
		"of an unknown plan": {
			plan: "later", held: charged, status: agent.Running, change: to(agent.Stopped),
			want: charged, after: stopped,
		},
		"of an unknown plan without amounts": {plan: "later", status: agent.Running, change: to(agent.Stopped)},
	} {
		before := agent.Agent{Plan: cmp.Or(row.plan, plan.Pro), Status: row.status, Held: row.held}
		equal(t, name+": held", before.HeldUsage(), row.want)
		after, _, err := before.Edit(func(a *agent.Agent) error { row.change(a); return nil }, nil)
		equal(t, name+": error", err, nil)
		equal(t, name+": recorded after the change", after.Held, row.after)
		equal(t, name+": held after the change", after.HeldUsage(), row.after)
		same, changed, _ := before.Edit(func(*agent.Agent) error { return nil }, nil)
		equal(t, name+": changed by no change", changed || same.Held != before.Held, false)
	}
	created := agent.New("", "", agent.Draft{Plan: plan.Pro}, at(0))
	equal(t, "recorded of a new agent", created.Held, pro)
}
