package agents

import (
	"context"
	"net/http"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/diagnosis"
	"agents.example/controlplane/shared/egresslog"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/function"
)

// Diagnosis explains an agent from its record and its events. It reads what the agent was refused only for one whose
// egress has a list, and the organization's account only for one that is paused because of it.
func Diagnosis(agents agent.Store, events event.Log, log egresslog.Log, accounts billing.Store) function.Route {
	return function.Route{
		Name: "DiagnoseAgent", Method: http.MethodGet, Path: "/api/v1/agents/{agent_id}/diagnosis",
		Access: function.Member, Needs: []function.Need{function.Firestore}, Reads: readsAgent,
		Status: http.StatusOK, Summary: "Explain why an agent does not run",
		Handle: function.Handle(func(ctx context.Context, in path) (diagnosis.View, error) {
			a, err := agents.Get(ctx, in.id())
			if err != nil {
				return diagnosis.View{}, err
			}
			caller := call.From(ctx).Caller
			happened, err := events.List(ctx, a.OrganizationID, diagnosis.EventFilter(a.ID, caller), "",
				diagnosis.MaxEvents)
			if err != nil {
				return diagnosis.View{}, err
			}
			f := diagnosis.Facts{Agent: a, Events: happened.Events, Caller: caller, Now: time.Now().UTC()}
			if diagnosis.NeedsEgressLog(a) {
				if f.Reached, err = log.List(ctx, a.ID); err != nil {
					return diagnosis.View{}, err
				}
			}
			if diagnosis.NeedsAccount(a) {
				account, err := accounts.Account(ctx, a.OrganizationID)
				if err != nil {
					return diagnosis.View{}, err
				}
				f.Account = &account
			}
			return diagnosis.Of(f), nil
		}),
	}
}
