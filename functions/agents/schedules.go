package agents

import (
	"context"
	"net/http"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/rehearsal"
)

type wakeInput struct {
	change
	Body struct {
		At *function.Time `json:"at" jsonschema:"When the agent is woken if it sleeps, at most 366 days ahead; a time in the past is now. Refused if sleep.wake_on lacks schedule. Null forgets the former time."`
	} `json:"body"`
}

// Example implements function.Exampler.
func (wakeInput) Example() any {
	var in wakeInput
	in.Body.At = &function.Time{Time: time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)}
	return in
}

// WakeAt sets one time at which the agent is woken if it sleeps.
func WakeAt(agents agent.Store, d agent.Display) function.Route {
	return function.Route{
		Name: "WakeAgentAt", Method: http.MethodPost, Path: "/api/v1/agents/{agent_id}/wake-at",
		Access: function.Admin, OwnKey: true,
		Needs:  []function.Need{function.Firestore, function.Publish, function.NudgeWebhooks},
		Status: http.StatusOK, Summary: "Set when an agent is woken",
		Errors:    []fault.Kind{fault.Conflict},
		Rehearsal: function.Rehearse(rehearsal.Of(d)),
		Handle: function.Handle(func(ctx context.Context, in wakeInput) (agent.View, error) {
			now, at := time.Now().UTC(), time.Time{}
			if in.Body.At != nil {
				at = in.Body.At.UTC().Truncate(time.Microsecond)
				// The zero time would mean none, and no database stores one before it.
				if past := time.Unix(0, 0).UTC(); at.Before(past) {
					at = past
				}
				if err := agent.CheckWakeAt(at, now); err != nil {
					return agent.View{}, err
				}
			}
			a, err := agents.Change(ctx, in.id(),
				in.unlessChanged(func(a *agent.Agent) error { return a.SetWakeAt(at, now) }))
			return show(ctx, a, d), err
		}),
	}
}
