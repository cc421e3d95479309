package agents

import (
	"context"
	"net/http"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/metrics"
)

type metricsInput struct {
	path
	Query struct {
		Window metrics.Window `json:"window,omitempty" jsonschema:"How far back the series go; 24h by default."`
		Awake  bool           `json:"awake,omitempty" jsonschema:"Also tells how long the agent was awake on each day."`
	} `json:"query"`
}

// Metrics reads an agent's metrics as they were last collected. A client that prefers text gets the current figures in
// the format of Prometheus.
func Metrics(agents agent.Store, snapshots metrics.Store) function.Route {
	return function.Route{
		Name: "GetAgentMetrics", Method: http.MethodGet, Path: "/api/v1/agents/{agent_id}/metrics",
		Access: function.Member, Needs: []function.Need{function.Firestore},
		Reads:  func(path func(string) string) document.Ref { return metrics.Document(path("agent_id")) },
		Status: http.StatusOK, Summary: "Get an agent's metrics",
		Handle: function.Handle(func(ctx context.Context, in metricsInput) (metrics.View, error) {
			s, err := readSnapshot(ctx, agents, snapshots, in.id())
			if err != nil {
				return metrics.View{}, err
			}
			snapshots.MarkViewed(ctx, s)
			now := time.Now()
			v := s.Show(in.Query.Window, now)
			if in.Query.Awake { // which the agent's record has
				a, err := agents.Get(ctx, in.id())
				if err != nil {
					return metrics.View{}, err
				}
				v.Awake = a.AwakeDays(now)
			}
			return v, nil
		}),
	}
}

// readSnapshot reads the agent's snapshot. An agent from before snapshots existed has an empty one until its first
// collection.
func readSnapshot(
	ctx context.Context, agents agent.Store, snapshots metrics.Store, id string,
) (metrics.Snapshot, error) {
	s, err := snapshots.Get(ctx, id)
	if !fault.Is(err, fault.NotFound) {
		return s, err
	}
	a, err := agents.Get(ctx, id)
	return metrics.New(a.ID, a.OrganizationID), err
}
