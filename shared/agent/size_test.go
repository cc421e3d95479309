package agent_test

import (
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

func resizeTo(id plan.ID) agent.Patch { return agent.Patch{Plan: &id} }

// ready returns an agent of the plan starter that became ready, in a status.
func ready(status agent.Status) agent.Agent {
	a := agent.New("id", "cell-1", agent.Draft{Name: "a", Plan: plan.Starter}, at(0))
	for _, name := range agent.StageNames() {
		a.EndStage(name, agent.StageSucceeded, at(0))
	}
	a.BecameReady(at(0))
	a.Status = status
	return committed(a)
}

func TestApply_MovesAnAgentToALargerPlan(t *testing.T) {
	t.Parallel()
	for status, want := range map[agent.Status]struct {
		restarts bool
		// wantUsage is what the agent holds afterwards.
		wantUsage func(organization.Usage) organization.Usage
	}{
		agent.Running: {restarts: true}, agent.Error: {restarts: true}, agent.Provisioning: {}, agent.Pending: {},
		agent.Paused: {},
		agent.Stopped: {wantUsage: func(u organization.Usage) organization.Usage {
			u.CPUMillis, u.MemoryBytes = 0, 0
			return u
		}},
	} {
		before := ready(status)
		after, changed, err := before.Edit(func(a *agent.Agent) error {
			return a.Apply(resizeTo(plan.Startup), at(1))
		}, nil)
		if err != nil || !changed {
			t.Fatalf("%s: changed %t, error %v", status, changed, err)
		}
		usage := usageOf(t, plan.Startup)
		if want.wantUsage != nil {
			usage = want.wantUsage(usage)
		}
		name := string(status)
		equal(t, name+": plan", after.Plan, plan.Startup)
		equal(t, name+": status", after.Status, status)
		equal(t, name+": usage", after.HeldUsage(), usage)
		equal(t, name+": generation", after.Generation, before.Generation+1)
		equal(t, name+": restarts", after.Restarts(before), want.restarts)
		equal(t, name+": warming", after.Warming, want.restarts)
		equal(t, name+": needs a worker", after.NeedsNudge(before, at(1)), true)
		left := 0
		if after.WantsPod() {
			left = len(agent.StageNames())
		}
		equal(t, name+": stages that begin again", len(after.Unfinished()), left)
	}
}

func TestApply_TheSamePlanChangesNothing(t *testing.T) {
	t.Parallel()
	a := ready(agent.Running)
	_, changed, err := a.Edit(func(a *agent.Agent) error {
		return a.Apply(resizeTo(plan.Starter), at(1))
	}, nil)
	equal(t, "changed", changed, false)
	equal(t, "error", err, nil)
}

func TestApply_RefusesAPlanWithASmallerVolume(t *testing.T) {
	t.Parallel()
	const shrinks = "storage_cannot_shrink"
	for name, row := range map[string]struct {
		status agent.Status
		held   int64 // GiB; 0 for that of the plan
		to     plan.ID
		want   string
	}{
		"running":                          {status: agent.Running, to: plan.Hobby, want: shrinks},
		"stopped":                          {status: agent.Stopped, to: plan.Hobby, want: shrinks},
		"paused":                           {status: agent.Paused, to: plan.Hobby, want: shrinks},
		"charged for a larger volume":      {status: agent.Running, held: 30, to: plan.Startup, want: shrinks},
		"charged for a smaller volume":     {status: agent.Running, held: 1, to: plan.Hobby, want: shrinks},
		"charged for exactly the volume":   {status: agent.Running, held: 20, to: plan.Startup},
		"being deleted":                    {status: agent.Deleting, to: plan.Startup, want: "agent_deleting"},
		"being deleted, and smaller sizes": {status: agent.Deleting, to: plan.Hobby, want: "agent_deleting"},
	} {
		a := ready(row.status)
		a.Held.StorageBytes = row.held << 30
		err := a.Apply(resizeTo(row.to), at(1))
		if row.want == "" {
			equal(t, name, err, nil)
			continue
		}
		if !fault.Is(err, fault.Conflict) || fault.Code(err) != row.want {
			t.Errorf("%s: error %v, want the conflict %s", name, err, row.want)
		}
	}
}

// A size takes up room of the organization's plan, and needs no account that may start agents.
func TestChargeChange_OfASize(t *testing.T) {
	t.Parallel()
	noCPU, noStorage := organization.Usage{CPUMillis: 19_000}, organization.Usage{StorageBytes: 390 << 30}
	for name, row := range map[string]struct {
		status  agent.Status
		account organization.Status
		used    organization.Usage // by other agents
		to      plan.ID
		refused string // the limit
	}{
		"room":                    {status: agent.Running, to: plan.Startup},
		"stopped":                 {status: agent.Stopped, to: plan.Startup},
		"a payment is overdue":    {status: agent.Running, account: organization.PastDue, to: plan.Startup},
		"larger than the plan":    {status: agent.Stopped, to: plan.Business, refused: "resource_plan"},
		"no CPU is left":          {status: agent.Running, used: noCPU, to: plan.Startup, refused: "cpu_cores"},
		"no CPU is left, stopped": {status: agent.Stopped, used: noCPU, to: plan.Startup},
		"no storage, stopped":     {status: agent.Stopped, used: noStorage, to: plan.Startup, refused: "storage_bytes"},
	} {
		before := ready(row.status)
		o := organization.New("o", at(0))
		o.Plan, o.Status = plan.Pro, row.account
		o.Usage = row.used.Plus(before.HeldUsage())
		after, _, err := before.Edit(func(a *agent.Agent) error { return a.Apply(resizeTo(row.to), at(1)) }, nil)
		if err != nil {
			t.Fatal(err)
		}
		depends, err := after.ChargeChange(&o, identity.Session, before)
		if row.refused != "" {
			if f := fault.From(err); err == nil || f.Kind != fault.PaymentRequired || f.Meta["limit"] != row.refused {
				t.Errorf("%s: error %v, want PaymentRequired for %s", name, err, row.refused)
			}
			continue
		}
		equal(t, name+": error", err, nil)
		equal(t, name+": depends on the organization", depends, true)
		equal(t, name+": usage", o.Usage, row.used.Plus(after.HeldUsage()))
	}
}

// An agent whose creation ended halfway holds nothing. Its size must still fit the plan that the commit has read.
func TestChargeChange_OfASizeDependsOnTheOrganization(t *testing.T) {
	t.Parallel()
	before, o := ready(agent.Stopped), organization.New("o", at(0))
	o.Plan = plan.Startup
	after := before
	after.Plan, before.Held, after.Held = plan.Startup, organization.Usage{}, organization.Usage{}
	before.Status, after.Status = agent.Deleting, agent.Deleting // which holds nothing either
	depends, err := after.ChargeChange(&o, identity.Session, before)
	equal(t, "error", err, nil)
	equal(t, "depends on the organization", depends, true)
}

// A sandbox that the cluster does not provide is turned off again. The size that came with it stays.
func TestGiveUp_KeepsTheSizeOfARevertedMigration(t *testing.T) {
	t.Parallel()
	a := ready(agent.Running)
	if err := a.Migrate(true, at(1)); err != nil {
		t.Fatal(err)
	}
	if err := a.Apply(resizeTo(plan.Startup), at(2)); err != nil {
		t.Fatal(err)
	}
	a.GiveUp(agent.Failure{Code: agent.CodeUnschedulable, Stage: agent.StageReady}, at(3))
	equal(t, "sandbox", a.Sandbox, false)
	equal(t, "plan", a.Plan, plan.Startup)
	if err := a.Apply(resizeTo(plan.Pro), at(4)); err != nil {
		t.Fatal(err)
	}
	if a.RevertReason == nil {
		t.Error("a new size forgets why the sandbox was turned off")
	}
	a.BecameReady(at(5))
	equal(t, "plan of the agent that runs again", a.Plan, plan.Pro)
	equal(t, "failure", a.Failure != nil && a.Failure.Code == agent.CodeSandboxUnschedulable, true)
}

// A release moves an agent whose size changes, too. What ends one of the two does not undo the other.
func TestGiveUp_TellsASizeFromAVersion(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		code        string
		wantVersion string
		wantStatus  agent.Status
	}{
		"the volume cannot grow": {code: "volume_cannot_grow", wantVersion: "2", wantStatus: agent.Error},
		"the version crashes":    {code: "pod_crash_loop", wantVersion: "1", wantStatus: agent.Running},
	} {
		a := ready(agent.Running)
		a.Image.Choice = image.Choice{ID: "default", Version: "1", Reference: "image@sha256:1"}
		a.MoveTo("release", image.Choice{ID: "default", Version: "2", Reference: "image@sha256:2"}, at(1))
		if err := a.Apply(resizeTo(plan.Startup), at(2)); err != nil {
			t.Fatal(err)
		}
		a.GiveUp(agent.Failure{Code: row.code, Stage: agent.StageReady}, at(3))
		equal(t, name+": version", a.Image.Version, row.wantVersion)
		equal(t, name+": status", a.Status, row.wantStatus)
		equal(t, name+": plan", a.Plan, plan.Startup)
	}
}
