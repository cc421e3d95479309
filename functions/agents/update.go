package agents

import (
	"context"
	"net/http"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/rehearsal"
)

type updateInput struct {
	change
	Body struct {
		Name   *agent.Name         `json:"name,omitempty"`
		Env    *map[string]*string `json:"env_vars,omitempty" jsonschema:"Merged into the environment: null removes a key, and keys that are not listed stay. Variables whose key or value looks like a secret are refused."`
		Config *map[string]any     `json:"config,omitempty" jsonschema:"Merged into the client's own keys according to RFC 7396."`
		Plan   *plan.ID            `json:"resource_plan,omitempty" jsonschema:"Changes the size of the agent. What the size takes up of the organization's plan is checked and counted with the change (402 if there is no room). A running agent gets a new pod, and the volume grows. A volume never shrinks: a plan with a smaller one is refused (409 storage_cannot_shrink)."`
	} `json:"body"`
}

// Example implements function.Exampler.
func (updateInput) Example() any {
	var in updateInput
	name, value := agent.Name("Support Assistant"), "debug"
	in.Body.Name, in.Body.Env = &name, &map[string]*string{"LOG_LEVEL": &value, "OLD_KEY": nil}
	return in
}

func (in updateInput) patch() agent.Patch {
	p := agent.Patch{Name: (*string)(in.Body.Name), Plan: in.Body.Plan}
	if in.Body.Env != nil {
		p.Env = *in.Body.Env
	}
	if in.Body.Config != nil {
		p.Config = *in.Body.Config
	}
	return p
}

// Update merges a patch into an agent.
func Update(agents agent.Store, d agent.Addresses) function.Route {
	return function.Route{
		Name: "UpdateAgent", Method: http.MethodPatch, Path: "/api/v1/agents/{agent_id}",
		Access: function.Admin,
		Needs:  []function.Need{function.Firestore, function.Publish, function.NudgeWebhooks},
		Status: http.StatusOK, Summary: "Update an agent",
		Errors:    []fault.Kind{fault.Conflict, fault.PaymentRequired},
		Rehearsal: function.Rehearse(rehearsal.Of(d)),
		Handle: function.Handle(func(ctx context.Context, in updateInput) (agent.View, error) {
			now, patch := time.Now().UTC(), in.patch()
			a, err := agents.Change(ctx, in.id(),
				in.unlessChanged(func(a *agent.Agent) error { return a.Apply(patch, now) }))
			return show(ctx, a, d), err
		}, agent.UpdateViolations),
	}
}
