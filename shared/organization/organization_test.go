package organization_test

import (
	"cmp"
	"testing"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

func TestOrganization_AddUsageRefusesMoreThanThePlan(t *testing.T) {
	t.Parallel()
	one := organization.Usage{Agents: 1, CPUMillis: 500, MemoryBytes: 1 << 30, StorageBytes: 5 << 30}
	for name, c := range map[string]struct {
		used, change organization.Usage
		plan         plan.ID // empty for that of a new organization
		wantLimit    string  // the limit that refuses the change; empty if it is accepted
		wantUpgrade  plan.ID // the plan that the refusal names; empty for the next one
	}{
		"first agent": {used: organization.Usage{}, change: one, wantLimit: ""},
		"second agent": {
			used: one, change: one,
			wantLimit: "agents",
		},
		"an agent more than two plans allow": {
			used: organization.Usage{Agents: 5}, change: one,
			wantLimit: "agents", wantUpgrade: plan.Pro,
		},
		"too much CPU": {
			used: organization.Usage{CPUMillis: 100}, change: organization.Usage{CPUMillis: 401},
			wantLimit: "cpu_cores",
		},
		"too much memory": {
			used: organization.Usage{}, change: organization.Usage{MemoryBytes: 1<<30 + 1},
			wantLimit: "memory_bytes",
		},
		"too much storage": {
			used: organization.Usage{}, change: organization.Usage{StorageBytes: 5<<30 + 1},
			wantLimit: "storage_bytes",
		},
		"decrease above the limit": {
			used: one.Plus(one).Plus(one), change: organization.Usage{}.Minus(one),
			wantLimit: "",
		},
		"decrease on a plan that no longer exists": {
			used: one, change: organization.Usage{}.Minus(one), plan: "gone", wantLimit: "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := organization.New("o", time.Now())
			o.Usage, o.Plan = c.used, cmp.Or(c.plan, o.Plan)
			err := o.AddUsage(c.change)
			if c.wantLimit == "" {
				if err != nil {
					t.Errorf("AddUsage: %v", err)
				}
				if want := c.used.Plus(c.change); o.Usage != want {
					t.Errorf("Usage = %+v, want %+v", o.Usage, want)
				}
				return
			}
			e := fault.From(err)
			if e == nil || e.Kind != fault.PaymentRequired {
				t.Fatalf("AddUsage = %v, want payment required", err)
			}
			if got := e.Meta["limit"]; got != c.wantLimit {
				t.Errorf("limit = %v, want %s", got, c.wantLimit)
			}
			if got, want := e.Meta["upgrade_to"], cmp.Or(c.wantUpgrade, plan.Starter); got != want {
				t.Errorf("upgrade_to = %v, want %s", got, want)
			}
			if o.Usage != c.used {
				t.Errorf("Usage = %+v after a refused change, want %+v", o.Usage, c.used)
			}
		})
	}
}

func TestOrganization_CheckMayStartNamesAPlanWithRoom(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		used organization.Usage
		want plan.ID
	}{
		"a plan that was paid":     {used: organization.Usage{Agents: 8, APIKeys: 1000}, want: plan.Pro},
		"large agents":             {used: organization.Usage{Agents: 2, MemoryBytes: 100 << 30}, want: plan.Business},
		"more than any plan":       {used: organization.Usage{Agents: 1000}, want: ""},
		"more than the present":    {used: organization.Usage{Agents: 2}, want: plan.Starter},
		"storage of a larger plan": {used: organization.Usage{StorageBytes: 60 << 30}, want: plan.Startup},
		"a little CPU":             {used: organization.Usage{CPUMillis: 501}, want: plan.Starter},
	} {
		o := organization.New("o", time.Now())
		o.Usage = c.used
		e := fault.From(o.CheckMayStart())
		if e == nil || e.Kind != fault.PaymentRequired || e.Meta["upgrade_to"] != c.want {
			t.Errorf("%s: %+v, want an error with upgrade_to %q", name, e, c.want)
		}
	}
}

func TestOrganization_CheckFitsRefusesLargerSizes(t *testing.T) {
	t.Parallel()
	o := organization.New("o", time.Now())
	o.Plan = plan.Startup
	for _, size := range plan.All() {
		err := o.CheckFits(size)
		if size.ID == plan.Hobby || size.ID == plan.Starter || size.ID == plan.Startup {
			if err != nil {
				t.Errorf("CheckFits(%s) = %v, want nil", size.ID, err)
			}
			continue
		}
		if e := fault.From(err); e == nil || e.Meta["upgrade_to"] != size.ID {
			t.Errorf("CheckFits(%s) = %+v, want an error with upgrade_to %s", size.ID, e, size.ID)
		}
	}
}
