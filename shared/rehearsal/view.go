package rehearsal

import (
	"context"
	"errors"
	"net/http"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// View is the answer to a rehearsed call.
type View struct {
	Would Would      `json:"would"`
	Agent agent.View `json:"agent" jsonschema:"The agent as the call would leave it. A new agent would get another id and the names that follow from it."`

	entityTag string
}

// Would is what a call would change.
type Would struct {
	Status             agent.Status         `json:"status" jsonschema:"The agent's status after the call."`
	Restarts           bool                 `json:"restarts" jsonschema:"Whether the call replaces the pod of an agent that runs or is in error."`
	DowntimeSeconds    *int64               `json:"downtime_seconds_estimate" jsonschema:"How long the agent does not answer because of the call: 0 if the call touches no running pod; if the call replaces the pod, as long as the last start of the agent waited for its pod, and some seconds more if a snapshot is taken in between; null if that is unknown, as with a restore, or if the pod is removed."`
	LosesDataSince     *time.Time           `json:"loses_data_since" jsonschema:"The time since when the agent no longer has what it wrote: the taken_at of the snapshot that is restored. The data is kept as a snapshot for 7 days. Null if the call leaves the agent's data as it is."`
	LosesHosts         []LostHost           `json:"loses_hosts" jsonschema:"The hosts that the agent used in the last 7 days and would no longer reach, the last used one first. Empty if the call does not change the agent's egress rules, and for an agent with open egress, whose connections are not logged."`
	UsageBefore        organization.Amounts `json:"usage_before" jsonschema:"What the organization takes up now."`
	UsageAfter         organization.Amounts `json:"usage_after" jsonschema:"What the organization takes up after the call."`
	MonthlyPriceBefore *float64             `json:"monthly_price_before_usd" jsonschema:"What the organization's plan costs per month now; null if that is agreed by contract."`
	MonthlyPriceAfter  *float64             `json:"monthly_price_after_usd" jsonschema:"What the organization's plan would cost per month; null if that is agreed by contract. The size of an agent has no separate price: it takes up a part of the plan."`
	MonthlyPriceChange *float64             `json:"monthly_price_change_usd" jsonschema:"The change of the price per month. The organization pays for its plan, which a change of an agent leaves as it is: 0, or null for a plan whose price is agreed by contract."`
}

// errNotRecorded means that a route which can be rehearsed changes no agent.
var errNotRecorded = errors.New("the rehearsed call changed no agent")

// Of returns a function that renders what a call recorded, for its caller.
func Of(d agent.Display) func(context.Context, *Rehearsal, identity.Caller) (View, error) {
	return func(ctx context.Context, r *Rehearsal, caller identity.Caller) (View, error) {
		if !r.recorded {
			return View{}, errNotRecorded
		}
		return r.show(ctx, caller, d), nil
	}
}

// show renders the rehearsal for a caller.
func (r *Rehearsal) show(ctx context.Context, caller identity.Caller, d agent.Display) View {
	v := View{
		Agent: d.Show(ctx, r.after.Agent, caller),
		Would: Would{
			Status:             r.after.Agent.Status,
			LosesHosts:         []LostHost{},
			Restarts:           r.after.Agent.Restarts(r.before.Agent),
			UsageBefore:        r.before.Organization.Usage.Amounts(),
			UsageAfter:         r.after.Organization.Usage.Amounts(),
			MonthlyPriceBefore: price(r.before.Organization.Plan), MonthlyPriceAfter: price(r.after.Organization.Plan),
		},
	}
	if from, to := v.Would.MonthlyPriceBefore, v.Would.MonthlyPriceAfter; from != nil && to != nil {
		v.Would.MonthlyPriceChange = new(*to - *from)
	}
	if downtime, ok := r.after.Agent.Downtime(r.before.Agent); ok {
		v.Would.DowntimeSeconds = new(int64((downtime + time.Second - 1) / time.Second))
	}
	if since := r.after.Agent.LosesDataSince(r.before.Agent); !since.IsZero() {
		v.Would.LosesDataSince = new(since.UTC())
	}
	if r.before.Agent.ID != "" {
		v.entityTag = r.before.Agent.EntityTag()
	}
	return v
}

// price is what a plan costs a month; nil if that is agreed by contract.
func price(id plan.ID) *float64 {
	p, err := plan.Get(id)
	if err != nil {
		return nil
	}
	return p.PriceUSDMonth
}

// Reply implements function.Reply. The entity tag is that of the version which the call would change: a real call that
// sends it as If-Match changes the agent that was rehearsed on, or fails.
func (v View) Reply(h http.Header) any {
	if v.entityTag != "" {
		h.Set("ETag", v.entityTag)
	}
	return v
}

// Example implements function.Exampler: an agent whose environment would change.
func (View) Example() any {
	shown, _ := agent.View{}.Example().(agent.View)
	shown.DashboardWarming = true
	usage := organization.Amounts{
		Agents: 1, CPUCores: 2, MemoryBytes: 4 << 30, StorageBytes: 20 << 30, APIKeys: 1,
		SnapshotBytes: new(int64(0)),
	}
	return View{
		Agent: shown, entityTag: `"1"`,
		Would: Would{
			Status: shown.Status, Restarts: true, DowntimeSeconds: new(int64(3)), UsageBefore: usage, UsageAfter: usage,
			LosesHosts:         []LostHost{},
			MonthlyPriceBefore: new(49.0), MonthlyPriceAfter: new(49.0), MonthlyPriceChange: new(0.0),
		},
	}
}
