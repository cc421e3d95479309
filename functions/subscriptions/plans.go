// Package subscriptions has the routes of plans and payments. It does not apply subscriptions; package billing does.
package subscriptions

import (
	"context"
	"net/http"
	"slices"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/plan"
)

// PlanView is a plan in an answer.
type PlanView struct {
	ID        plan.ID `json:"id" jsonschema:"The plan's id, as in resource_plan of an agent."`
	Name      string  `json:"name" jsonschema:"The plan's name for people."`
	Agent     Size    `json:"agent" jsonschema:"The size of an agent on this plan."`
	MaxAgents int64   `json:"max_agents" jsonschema:"How many agents an organization on this plan may have."`
	// SleepAfterSeconds is the policy of an agent whose client asks for nothing.
	SleepAfterSeconds *int64   `json:"sleep_after_seconds" jsonschema:"After how many seconds without use an agent of this plan falls asleep by default; null: it never sleeps unless it is asked to. The plan sets no limit: each agent may sleep earlier, later or never."`
	MaxSnapshots      int      `json:"max_snapshots" jsonschema:"How many snapshots of an agent of this plan are kept that are taken by request. Those that the control plane takes itself are kept in addition."`
	DailySnapshots    int      `json:"daily_snapshots" jsonschema:"For how many days the daily snapshots of an agent of this plan are kept; 0: none are taken."`
	PriceUSDMonth     *float64 `json:"price_usd_month" jsonschema:"Null if the price is set by contract."`
	Features          []string `json:"features" jsonschema:"What the plan includes beyond its size, such as all_ports, exec and audit_log; daily_backups if the operator of the service has them made. Others may be added."`
}

// Example implements function.Exampler.
func (PlanView) Example() any {
	p, _ := plan.Get(plan.Startup)
	return show(p, false)
}

func show(p plan.Plan, backups bool) PlanView {
	v := PlanView{
		ID: p.ID, Name: p.Name, MaxAgents: p.MaxAgents, PriceUSDMonth: p.PriceUSDMonth, Features: p.Features,
		MaxSnapshots: p.MaxSnapshots, DailySnapshots: p.DailySnapshots,
		Agent: Size{CPUCores: p.CPUCores(), MemoryBytes: p.MemoryBytes(), StorageBytes: p.StorageBytes()},
	}
	if !backups {
		v.Features = slices.DeleteFunc(slices.Clone(p.Features), func(f string) bool { return f == plan.DailyBackups })
	}
	if p.SleepAfterSeconds > 0 {
		v.SleepAfterSeconds = &p.SleepAfterSeconds
	}
	return v
}

// Size is the size of an agent on a plan.
type Size struct {
	CPUCores     float64 `json:"cpu_cores" jsonschema:"CPU cores."`
	MemoryBytes  int64   `json:"memory_bytes" jsonschema:"Memory."`
	StorageBytes int64   `json:"storage_bytes" jsonschema:"The size of the volume."`
}

// Plans lists the plans, from the smallest to the largest. Daily backups are named if the operator has turned them on.
func Plans(backups bool) function.Route {
	return function.Route{
		Name: "ListPlans", Method: http.MethodGet, Path: "/api/v1/billing/plans", Role: function.RoleAccounts,
		Access: function.Member,
		Status: http.StatusOK, Summary: "List the plans",
		Handle: function.Handle(func(context.Context, function.Empty) ([]PlanView, error) {
			var views []PlanView
			for _, p := range plan.All() {
				views = append(views, show(p, backups))
			}
			return views, nil
		}),
	}
}
