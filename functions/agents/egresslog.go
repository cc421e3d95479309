package agents

import (
	"context"
	"net/http"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/egresslog"
	"agents.example/controlplane/shared/function"
)

// ListEgressLog shows which hosts an agent reached in the last days, and which it was refused. It is for admins: names
// of hosts may say what an agent works on, or for whom.
func ListEgressLog(agents agent.Store, log egresslog.Log) function.Route {
	return function.Route{
		Name: "ListEgressLog", Method: http.MethodGet, Path: "/api/v1/agents/{agent_id}/egress-log",
		Access: function.Admin, Needs: []function.Need{function.Firestore}, Reads: readsAgent,
		Status: http.StatusOK, Summary: "List the hosts that an agent reached or was refused",
		Handle: function.Handle(func(ctx context.Context, in path) (egresslog.View, error) {
			a, err := agents.Get(ctx, in.id())
			if err != nil {
				return egresslog.View{}, err
			}
			counts, err := log.List(ctx, a.ID)
			return egresslog.Show(counts, a.Egress, time.Now()), err
		}),
	}
}
