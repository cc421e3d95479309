package rehearsal

import (
	"context"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/egresslog"
	"agents.example/controlplane/shared/identity"
)

// LostHost is a host that an agent uses and would no longer reach.
type LostHost struct {
	Host   string    `json:"host" jsonschema:"The name of the host."`
	Used   int64     `json:"used" jsonschema:"How many connections and requests the gate forwarded to the host in the last 7 days."`
	LastAt time.Time `json:"last_at" jsonschema:"When the agent last tried the host."`
}

// OfEgress is Of for a route that may change what an agent may reach. Only for such a change it reads the log.
func OfEgress(d agent.Display, log egresslog.Log) func(context.Context, *Rehearsal, identity.Caller) (View, error) {
	show := Of(d)
	return func(ctx context.Context, r *Rehearsal, caller identity.Caller) (View, error) {
		v, err := show(ctx, r, caller)
		before, after := r.before.Agent, r.after.Agent
		if err != nil || before.Egress.Equal(after.Egress) {
			return v, err
		}
		counts, err := log.List(ctx, after.ID)
		if err != nil {
			return View{}, err
		}
		for _, c := range egresslog.Lost(counts, before.Egress, after.Egress) {
			lost := LostHost{Host: c.Host, Used: c.Used, LastAt: c.LastAt.UTC()}
			v.Would.LosesHosts = append(v.Would.LosesHosts, lost)
		}
		return v, nil
	}
}
