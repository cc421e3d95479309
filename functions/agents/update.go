package agents

import (
	"context"
	"net/http"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/egresslog"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/rehearsal"
)

type updateInput struct {
	change
	Body struct {
		Name   *agent.Name         `json:"name,omitempty"`
		Env    *map[string]*string `json:"env_vars,omitempty" jsonschema:"Merged into the environment: null removes a key, and keys that are not listed stay. Variables whose key or value looks like a secret are refused."`
		Config *map[string]any     `json:"config,omitempty" jsonschema:"Merged into the client's own keys according to RFC 7396. A running agent gets a new pod, with the new file."`
		Plan   *plan.ID            `json:"resource_plan,omitempty" jsonschema:"Changes the size of the agent. What the size takes up of the organization's plan is checked and counted with the change (402 if there is no room). A running agent gets a new pod, and the volume grows. A volume never shrinks: a plan with a smaller one is refused (409 storage_cannot_shrink)."`
		Public *publicPaths        `json:"public_paths,omitempty" jsonschema:"Replaces the agent's public paths, which anyone may request without a credential; an empty list removes them. A running agent gets a new pod. See the creation of agents."`

		Egress *agent.EgressSpec `json:"egress,omitempty" jsonschema:"Changes what the agent may reach; a field that is not given stays."`

		Sleep *sleepSpec `json:"sleep,omitempty" jsonschema:"Changes when the agent falls asleep and what wakes it; a field that is not given stays. A running agent gets a new pod."`

		Image       *selection   `json:"image,omitempty" jsonschema:"Another version of the agent's image, as image or image@version; without a version, the one that is released at present. It replaces the pod. The next start takes the released version in place of an older one, unless image_policy is pinned. Another image is refused, because it has other files in /data."`
		ImagePolicy image.Policy `json:"image_policy,omitempty" jsonschema:"When the agent takes another version of its image: with a release or at its next start (auto), the same but only in its maintenance window (window), or only if a client asks for it (pinned). A custom image is always pinned."`

		Files function.Nullable[agent.FileSpecs] `json:"files,omitzero" jsonschema:"Replaces the agent's files, and the pod of a running agent; null removes them all. A file without content and secret keeps those that it has. A file that was written below /data stays there when it is removed from the list."`

		Schedules function.Nullable[agent.ScheduleSpecs] `json:"schedules,omitzero" jsonschema:"Replaces the agent's schedules; null removes them all. A schedule whose id stays goes on where it was, unless its cron, timezone or enabled changes. The pod stays."`

		MaintenanceWindow function.Nullable[image.MaintenanceWindow] `json:"maintenance_window,omitzero" jsonschema:"When the agent takes another version if image_policy is window. It replaces the former window; null removes it."`
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
	if in.Body.Public != nil {
		p.PublicPaths = new(agent.PublicPaths(texts(*in.Body.Public)))
	}
	if in.Body.Egress != nil {
		p.Egress = in.Body.Egress.Change
	}
	if in.Body.Sleep != nil {
		p.Sleep = in.Body.Sleep.change
	}
	if in.Body.Config != nil {
		p.Config = *in.Body.Config
	}
	if in.Body.Image != nil {
		p.Image = new(string(*in.Body.Image))
	}
	p.ImagePolicy = in.Body.ImagePolicy
	if w := in.Body.MaintenanceWindow; w.Given {
		p.MaintenanceWindow = &w.Value
	}
	if f := in.Body.Files; f.Given {
		p.Files = new([]agent.FileSpec)
		if f.Value != nil {
			*p.Files = *f.Value
		}
	}
	if s := in.Body.Schedules; s.Given {
		p.Schedules = new([]agent.ScheduleSpec)
		if s.Value != nil {
			*p.Schedules = *s.Value
		}
	}
	return p
}

// Update merges a patch into an agent.
func Update(agents agent.Store, log egresslog.Log, d agent.Display) function.Route {
	return function.Route{
		Name: "UpdateAgent", Method: http.MethodPatch, Path: "/api/v1/agents/{agent_id}",
		Access: function.Admin,
		Needs:  []function.Need{function.Firestore, function.Publish, function.NudgeWebhooks},
		Status: http.StatusOK, Summary: "Update an agent",
		Errors:    []fault.Kind{fault.Conflict, fault.PaymentRequired},
		Rehearsal: function.Rehearse(rehearsal.OfEgress(d, log)),
		Handle: function.Handle(func(ctx context.Context, in updateInput) (agent.View, error) {
			now, patch := time.Now().UTC(), in.patch()
			a, err := agents.Change(ctx, in.id(),
				in.unlessChanged(func(a *agent.Agent) error { return a.Apply(patch, now) }))
			return show(ctx, a, d), err
		}, agent.UpdateViolations),
	}
}
