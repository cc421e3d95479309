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
		"the first":    {used: organization.Usage{}, change: one, limit: ""},
		"one too many": {used: one, change: one, limit: "agents"},
		"only CPU": {used: organization.Usage{CPUMillis: 100}, change: organization.Usage{CPUMillis: 401},
			limit: "cpu_cores"},
		"only memory": {used: organization.Usage{}, change: organization.Usage{MemoryBytes: 1<<30 + 1},
			limit: "memory_bytes"},
		"only storage": {used: organization.Usage{}, change: organization.Usage{StorageBytes: 5<<30 + 1},
			limit: "storage_bytes"},
		"giving back over limit": {used: one.Plus(one).Plus(one), change: organization.Usage{}.Minus(one), limit: ""},
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
		if e == nil || e.Kind != fault.PaymentRequired || e.Meta["limit"] != c.limit ||
			e.Meta["upgrade_to"] != plan.Starter || o.Usage != c.used {
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
