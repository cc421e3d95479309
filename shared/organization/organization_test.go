package organization_test

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

func TestTake(t *testing.T) {
	t.Parallel()
	one := organization.Usage{Agents: 1, CPUMillis: 500, MemoryBytes: 1 << 30, StorageBytes: 5 << 30}
	for name, c := range map[string]struct {
		used, change organization.Usage
		limit        string
	}{
		"the first":              {organization.Usage{}, one, ""},
		"one too many":           {one, one, "agents"},
		"only CPU":               {organization.Usage{CPUMillis: 100}, organization.Usage{CPUMillis: 401}, "cpu_cores"},
		"only memory":            {organization.Usage{}, organization.Usage{MemoryBytes: 1<<30 + 1}, "memory_bytes"},
		"only storage":           {organization.Usage{}, organization.Usage{StorageBytes: 5<<30 + 1}, "storage_bytes"},
		"giving back over limit": {one.Plus(one).Plus(one), organization.Usage{}.Minus(one), ""},
	} {
		o := organization.New("o", time.Now())
		o.Usage = c.used
		err := o.AddUsage(c.change)
		if c.limit == "" {
			if err != nil || o.Usage != c.used.Plus(c.change) {
				t.Errorf("%s: %v, %+v", name, err, o.Usage)
			}
			continue
		}
		e := fault.From(err)
		if e == nil || e.Kind != fault.PaymentRequired || e.Meta["limit"] != c.limit || e.Meta["upgrade_to"] != plan.Starter || o.Usage != c.used {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	o := organization.New("o", time.Now())
	o.Plan = plan.Startup
	for _, size := range plan.All() {
		err := o.CheckFits(size)
		fits := size.ID == plan.Hobby || size.ID == plan.Starter || size.ID == plan.Startup
		if fits != (err == nil) || (!fits && fault.From(err).Meta["upgrade_to"] != size.ID) {
			t.Errorf("%s: %v", size.ID, err)
		}
	}
}
