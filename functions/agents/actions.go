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

// Restart replaces the agent's pod, or provisions an agent in error again.
func Restart(agents agent.Store, d agent.Display) function.Route {
	return action(agents, d, agent.Restart, "RestartAgent", "Restart an agent")
}

// Pause removes the agent's pod and keeps its CPU and memory reserved.
func Pause(agents agent.Store, d agent.Display) function.Route {
	return action(agents, d, agent.Pause, "PauseAgent", "Pause an agent")
}

// Resume starts a paused agent again.
func Resume(agents agent.Store, d agent.Display) function.Route {
	return action(agents, d, agent.Resume, "ResumeAgent", "Resume a paused agent")
}

// Stop removes the agent's pod and frees its CPU and memory. The volume and the secrets stay.
func Stop(agents agent.Store, d agent.Display) function.Route {
	return action(agents, d, agent.Stop, "StopAgent", "Stop an agent")
}

// Start starts an agent that is stopped or in error.
func Start(agents agent.Store, d agent.Display) function.Route {
	return action(agents, d, agent.Start, "StartAgent", "Start an agent")
}

// action is a route that makes one transition of the agent's state.
func action(agents agent.Store, d agent.Display, trigger agent.Trigger, name, summary string) function.Route {
	return function.Route{
		Name: name, Method: http.MethodPost, Path: "/api/v1/agents/{agent_id}/" + string(trigger),
		Access: function.Admin,
		Needs:  []function.Need{function.Firestore, function.Publish, function.NudgeWebhooks},
		Status: http.StatusOK, Summary: summary, Errors: refusals(trigger),
		Rehearsal: function.Rehearse(rehearsal.Of(d)),
		Handle: function.Handle(func(ctx context.Context, in change) (agent.View, error) {
			return act(ctx, agents, d, in, trigger)
		}),
	}
}

// refusals lists the kinds of errors of a transition: it is not possible from the present state, or the plan has no
// room for a running agent.
func refusals(t agent.Trigger) []fault.Kind {
	if t == agent.Start || t == agent.Resume || t == agent.Restart {
		return []fault.Kind{fault.Conflict, fault.PaymentRequired}
	}
	return []fault.Kind{fault.Conflict}
}

func act(ctx context.Context, agents agent.Store, d agent.Display, in change, t agent.Trigger) (agent.View, error) {
	now := time.Now().UTC()
	a, err := agents.Change(ctx, in.id(),
		in.unlessChanged(func(a *agent.Agent) error { return a.Act(t, agent.Manual, now) }))
	return show(ctx, a, d), err
}
