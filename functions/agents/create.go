package agents

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/rehearsal"
	"agents.example/controlplane/shared/secretwrite"
	"agents.example/controlplane/shared/webhook"
)

type createInput struct {
	Body struct {
		Name   agent.Name        `json:"name"`
		Plan   plan.ID           `json:"resource_plan"`
		Cloud  agent.Cloud       `json:"cloud,omitempty" jsonschema:"Cloud partner id; gcp by default."`
		Region string            `json:"region,omitempty" jsonschema:"Data-plane region; by default us-central1, or the first one of a deployment that is elsewhere."`
		Env    map[string]string `json:"env_vars,omitempty" jsonschema:"The agent's environment variables. Variables whose key or value looks like a secret go to the secret store. Keys reserved for the platform or for dashboard authentication are refused."`
		Config map[string]any    `json:"config,omitempty" jsonschema:"The client's own keys, which the agent finds as a JSON file, named by the variable AGENT_CONFIG_FILE. Keys that the control plane fills are ignored."`
		Files  agent.FileSpecs   `json:"files,omitempty" jsonschema:"Files that the agent finds at each start of its pod, at most 20."`
		Public publicPaths       `json:"public_paths,omitempty" jsonschema:"Paths that anyone may request without a credential, for webhooks and apps that bring their own; at most 20. One that ends with a slash, such as /hooks/, stands for everything below it. They are rate-limited, and the agent's program must check who calls. Nothing below /v1, /auth, /handoff, /health and /logout can be public."`
		Egress *agent.EgressSpec `json:"egress,omitempty" jsonschema:"What the agent may reach. Without mode, what the organization chose for new agents, of which the lists that are not given stay; a clone has that of its source, of which fields that are not given stay."`
		Sleep  *sleepSpec        `json:"sleep,omitempty" jsonschema:"When the agent falls asleep, and what wakes it. The default of the plan hobby is after 1800 seconds; agents of other plans never sleep by default. An agent with the default takes that of a plan to which it is moved."`

		Schedules agent.ScheduleSpecs `json:"schedules,omitempty" jsonschema:"When the agent is called by itself, at most 20. Each due time is called once, whatever fails, or recorded as interrupted or skipped. An agent that sleeps is woken first, if its sleep allows that."`

		FromSnapshot agent.SnapshotID `json:"from_snapshot,omitempty" jsonschema:"The id of a snapshot of one of the organization's agents, whose data the new agent begins with. The new agent also has that agent's region, plain variables, config, files, sleep, image and schedules, each unless the request has the field; the variables of the request are added to those of the agent. It gets another identity and other credentials. Its schedules are disabled, no path is public, and secrets, with the files that have their values, are left out: unset_secrets names them. The environment of its container has AGENT_CLONE_OF."`

		ImportURL importURL `json:"import_url,omitempty"`

		Image selection `json:"image,omitempty" jsonschema:"What the agent runs: the id of an image, such as assistant, or a version of it, such as assistant@2.1.0; or on plans with custom_images an image that is not in the catalog, as registry/repository@sha256:…, which runs in a sandbox. By default, the image called default."`
	} `json:"body"`
}

// Example implements function.Exampler.
func (createInput) Example() any {
	var in createInput
	in.Body.Name, in.Body.Plan, in.Body.Region = "Support Assistant", plan.Startup, agent.DefaultRegion
	in.Body.Env = map[string]string{"LOG_LEVEL": "info", "OPENAI_API_KEY": "(a value)"}
	in.Body.Config = map[string]any{"team": "support"}
	return in
}

// draft is the requested agent. It begins with what base has, and defaults. Secrets are stored separately.
func (in createInput) draft(base agent.Draft, region string) (agent.Draft, error) {
	b, d := in.Body, base
	d.Name, d.Plan, d.PublicPaths = string(b.Name), b.Plan, agent.PublicPaths(texts(b.Public))
	d.Cloud = cmp.Or(string(b.Cloud), d.Cloud, agent.DefaultCloud)
	d.Region = cmp.Or(b.Region, d.Region, region)
	d.Image = string(b.Image)
	d.Imports = b.ImportURL != ""
	if b.Files != nil {
		d.Files = agent.Files(b.Files)
	}
	if b.Schedules != nil {
		d.Schedules = b.Schedules
	}
	if b.Sleep != nil {
		p, _ := plan.Get(b.Plan) // the schema has checked the plan
		former := agent.DefaultSleep(p)
		if d.Sleep != nil {
			former = *d.Sleep
		}
		d.Sleep = new(b.Sleep.change(former))
	}
	switch {
	case b.Egress == nil:
	case b.Egress.Mode == "" && d.Egress == nil:
		d.EgressSpec = *b.Egress
	default:
		former := egress.Rules{}
		if d.Egress != nil {
			former = *d.Egress
		}
		after, err := b.Egress.Change(former)
		if err != nil {
			return d, err
		}
		d.Egress = &after
	}
	if err := d.SetEnv(agent.PlainEnv(b.Env), agent.SecretEnv(b.Env)); err != nil {
		return d, err
	}
	if b.Config == nil && d.Config != nil {
		return d, nil
	}
	config, err := agent.ClientConfig(b.Config)
	d.Config = config
	return d, err
}

// Create records a new agent, which a worker provisions. It stores the values of secrets as PUT secrets does.
func Create(agents agent.Store, writer secretwrite.Service, cells agent.Cells, urls webhook.URLPolicy,
	d agent.Display,
) function.Route {
	return function.Route{
		Name: "CreateAgent", Method: http.MethodPost, Path: "/api/v1/agents",
		Access: function.Admin,
		Needs:  []function.Need{function.Firestore, function.Publish, function.NudgeWebhooks, function.SecretAdd},
		Status: http.StatusCreated, Summary: "Create an agent",
		// Conflict: a call with the same Idempotency-Key is still running.
		Errors:    []fault.Kind{fault.PaymentRequired, fault.Conflict},
		Rehearsal: function.Rehearse(rehearsal.Of(d)),
		Handle: function.Handle(func(ctx context.Context, in createInput) (agent.Created, error) {
			a, err := create(ctx, in, agents, cells)
			if err != nil {
				return agent.Created{}, err
			}
			created, err := writer.Create(ctx, a, in.secrets())
			return agent.Created{View: show(ctx, created, d)}, err
		}, agent.CreateViolations, cells.RegionViolations, importViolations(urls)),
	}
}

// create returns the record of a new agent.
func create(ctx context.Context, in createInput, agents agent.Store, cells agent.Cells) (agent.Agent, error) {
	base, err := origin(ctx, string(in.Body.FromSnapshot), agents)
	if err != nil && !call.From(ctx).Attempt.Replaying() { // the snapshot may be gone since the first call
		return agent.Agent{}, err
	}
	draft, err := in.draft(base, cells.DefaultRegion())
	if err == nil {
		err = draft.CheckOrigin()
	}
	if err != nil {
		return agent.Agent{}, err
	}
	id := uuid.NewString()
	cell, err := cells.Place(draft.Region, id)
	if err != nil {
		return agent.Agent{}, err
	}
	return agent.New(id, cell, draft, time.Now().UTC()), nil
}

// origin is what a new agent has of the agent of a snapshot; nothing without a snapshot.
func origin(ctx context.Context, snapshotID string, agents agent.Store) (agent.Draft, error) {
	if snapshotID == "" {
		return agent.Draft{}, nil
	}
	owner, _, ok := agent.SnapshotOwner(snapshotID)
	if !ok {
		return agent.Draft{}, agent.UnknownSnapshot()
	}
	source, err := agents.Get(ctx, owner)
	if fault.Is(err, fault.NotFound) {
		return agent.Draft{}, agent.UnknownSnapshot()
	}
	if err != nil {
		return agent.Draft{}, err
	}
	return source.CloneDraft(snapshotID)
}
