package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/plan"
)

// Limits of arguments.
const (
	defaultPage = 20
	maxWait     = 55
	defaultWait = 50
	maxTail     = 500
	defaultTail = 100
	waitTool    = "wait_for_agent"
)

// Types whose schema has limits.
type (
	pageSize    int64
	tailLines   int64
	endedRun    int64
	waitSeconds int64
	// sleepSeconds is how long an agent is idle before it falls asleep; 0 is never.
	sleepSeconds int64
)

type agentID struct {
	ID string `json:"agent_id"` // list_agents says that it shows the ids
}

type listAgentsInput struct {
	Status  client.AgentStatus `json:"status,omitempty"`
	Plan    client.PlanID      `json:"resource_plan,omitempty"`
	Region  string             `json:"region,omitempty" jsonschema:"Only agents in this region."`
	Name    string             `json:"name,omitempty" jsonschema:"Only agents with exactly this name."`
	Image   string             `json:"image,omitempty" jsonschema:"Only agents with this image, by its id."`
	Version string             `json:"version,omitempty" jsonschema:"Only agents with this version of their image."`
	Limit   pageSize           `json:"limit,omitempty"`
	Cursor  string             `json:"cursor,omitempty" jsonschema:"next_cursor of the previous call, for the next page."`
	Fields  []string           `json:"fields,omitempty" jsonschema:"Fields of get_agent to show of each agent. By default what identifies it and its state."`
}

type agentList struct {
	Agents []map[string]json.RawMessage `json:"agents"`
	Next   string                       `json:"next_cursor,omitempty"`
}

func listAgents(ctx context.Context, c *call, in listAgentsInput) (agentList, string, error) {
	if in.Limit == 0 {
		in.Limit = defaultPage
	}
	if len(in.Fields) == 0 {
		in.Fields = []string{"id", "name", "status", "status_reason", "resource_plan", "error"}
	}
	if _, err := pick(agentView{}, in.Fields); err != nil {
		return agentList{}, "", err // also if there is no agent
	}
	page, err := c.ListAgents(client.ListAgentsParams{
		Limit: int64(in.Limit), Cursor: in.Cursor, Status: in.Status, ResourcePlan: in.Plan, Region: in.Region,
		Name: in.Name, Image: in.Image, Version: in.Version,
	}).Page(ctx)
	if err != nil {
		return agentList{}, "", err
	}
	out := agentList{Agents: []map[string]json.RawMessage{}, Next: page.Next}
	for i := range page.Items {
		a, err := pick(viewOf(&page.Items[i]), in.Fields)
		if err != nil {
			return agentList{}, "", err
		}
		out.Agents = append(out.Agents, a)
	}
	text := fmt.Sprintf("%d agents.", len(out.Agents))
	if page.Next != "" {
		text += " There are more: call list_agents with next_cursor as cursor."
	}
	return out, text, nil
}

// shown makes the result of a tool that changed an agent.
func shown(a *client.Agent, err error) (changed, string, error) {
	if err != nil {
		return changed{}, "", err
	}
	return changeOf(a), say(a), nil
}

type getInput struct {
	agentID
	Fields []string `json:"fields,omitempty" jsonschema:"Only these fields, to keep the answer short."`
}

func getAgent(ctx context.Context, c *call, in getInput) (map[string]json.RawMessage, string, error) {
	a, err := c.GetAgent(ctx, in.ID, client.GetAgentParams{})
	if err != nil {
		return nil, "", err
	}
	picked, err := pick(viewOf(a), in.Fields)
	return picked, say(a), err
}

type createInput struct {
	Name   string                     `json:"name" jsonschema:"Display name, 1 to 120 characters."`
	Plan   client.PlanID              `json:"resource_plan"`
	Region string                     `json:"region,omitempty" jsonschema:"By default us-central1, or the first region of a deployment that is elsewhere."`
	Env    map[string]string          `json:"env_vars,omitempty" jsonschema:"Environment variables. Put no secrets here: use set_secrets or the console."`
	Config map[string]any             `json:"config,omitempty" jsonschema:"The user's own settings, any JSON object."`
	Files  []client.AgentFileSpec     `json:"files,omitempty" jsonschema:"Files below /data (its volume) or /config (read-only) when it starts: each with content, which is no secret, or the key of a secret."`
	Public []string                   `json:"public_paths,omitempty" jsonschema:"Paths that anyone may request without a credential, for webhooks: /telegram, or /hooks/ for all below it. The agent's program must check who calls."`
	Calls  []client.AgentScheduleSpec `json:"schedules,omitempty" jsonschema:"When the agent is called by itself. No secrets in bodies."`
	Egress *client.AgentEgressSpec    `json:"egress,omitempty" jsonschema:"Without mode, what the organization chose, with the lists that are given."`
	Image  string                     `json:"image,omitempty" jsonschema:"What the agent runs: an id from list_images, or id@version. By default the image called default."`
	From   string                     `json:"from_snapshot,omitempty" jsonschema:"Begin with the data of a snapshot and the settings of its agent, but without its secrets."`
	sleepInput
	Key string `json:"idempotency_key,omitempty" jsonschema:"A repeat with the same key and arguments creates no second agent."`
}

// sleepInput says when an agent falls asleep. Its 0 is never, because an argument that is null counts as left out.
type sleepInput struct {
	SleepAfter *sleepSeconds        `json:"sleep_after_seconds,omitempty"`
	WakeOn     *[]client.AgentWaker `json:"wake_on,omitempty" jsonschema:"What wakes the agent when it sleeps, in addition to resume_agent."`
}

// spec is the request for it, or nil if the arguments do not say it.
func (in sleepInput) spec() *client.AgentSleepSpec {
	if in.SleepAfter == nil && in.WakeOn == nil {
		return nil
	}
	spec := &client.AgentSleepSpec{WakeOn: in.WakeOn}
	if in.SleepAfter != nil {
		var after *int64
		if *in.SleepAfter != 0 { // the API refuses what is too short
			after = (*int64)(in.SleepAfter)
		}
		spec.AfterSeconds = &after
	}
	return spec
}

func createAgent(ctx context.Context, c *call, in createInput) (changed, string, error) {
	body := client.CreateAgentRequest{
		Name: in.Name, ResourcePlan: in.Plan, EnvVars: in.Env, Config: in.Config, Files: in.Files,
		PublicPaths: in.Public, Schedules: in.Calls, Egress: in.Egress, Sleep: in.spec(),
	}
	if in.Region != "" {
		body.Region = &in.Region
	}
	if in.Image != "" {
		body.Image = &in.Image
	}
	if in.From != "" {
		body.FromSnapshot = &in.From
	}
	options := c.options()
	if in.Key != "" && c.rehearsal == nil {
		options = append(options, client.IdempotencyKey(in.Key))
	}
	return shown(c.CreateAgent(ctx, body, options...))
}

type updateInput struct {
	agentID
	Name   *string                        `json:"name,omitempty" jsonschema:"A new display name."`
	Plan   *client.PlanID                 `json:"resource_plan,omitempty"`
	Env    map[string]*string             `json:"env_vars,omitempty" jsonschema:"Variables to set; null removes one. Others stay. No secrets: use set_secrets."`
	Config map[string]any                 `json:"config,omitempty" jsonschema:"Settings to merge; null removes one. Others stay."`
	Files  *[]client.AgentFileSpec        `json:"files,omitempty" jsonschema:"All files that the agent shall have; others are removed. One with its path alone stays as it is. Restarts the agent."`
	Public []string                       `json:"public_paths,omitempty" jsonschema:"All public paths that the agent shall have. Restarts the agent."`
	Calls  *[]client.AgentScheduleSpec    `json:"schedules,omitempty" jsonschema:"All schedules that the agent shall have; others are removed. Get the agent first, and send back those that stay with their bodies."`
	Egress *client.AgentEgressSpec        `json:"egress,omitempty" jsonschema:"A list replaces the present one: to add hosts, call allow_egress_hosts. A change of the mode restarts the agent."`
	Image  *string                        `json:"image,omitempty" jsonschema:"Another version of the agent's image: its id for the one that is released at present, or id@version. Restarts the agent. Another image is refused."`
	Policy *client.ImagePolicy            `json:"image_policy,omitempty" jsonschema:"When the agent takes another version: auto with a release or at its next start, window only in its maintenance window, pinned only by this tool."`
	Window *client.ImageMaintenanceWindow `json:"maintenance_window,omitempty" jsonschema:"When the policy window lets the agent take another version."`
	sleepInput
}

func updateAgent(ctx context.Context, c *call, in updateInput) (changed, string, error) {
	body := client.UpdateAgentRequest{
		Name:         in.Name,
		ResourcePlan: in.Plan,
		EnvVars:      in.Env,
		Config:       in.Config,
		Files:        in.Files,
		Schedules:    in.Calls,
		Egress:       in.Egress,
		Image:        in.Image,
		ImagePolicy:  in.Policy,
		Sleep:        in.spec(),
	}
	if in.Public != nil {
		body.PublicPaths = &in.Public
	}
	if in.Window != nil {
		body.MaintenanceWindow = &in.Window
	}
	return shown(c.UpdateAgent(ctx, in.ID, body, c.options()...))
}

// listImages lists what agents can run.
func listImages(ctx context.Context, c *call, _ noArguments) (imageList, string, error) {
	images, err := c.ListImages(ctx)
	return imageList{images}, fmt.Sprintf("%d images.", len(images)), err
}

// imageList is the result of list_images: results are objects.
type imageList struct {
	Images []client.Image `json:"images"`
}

// noArguments is the input of a tool without arguments.
type noArguments struct{}

// action makes a tool of an action that needs nothing but the agent.
func action(act func(c *call, ctx context.Context, id string) (*client.Agent, error)) func(
	context.Context, *call, agentID,
) (changed, string, error) {
	return func(ctx context.Context, c *call, in agentID) (changed, string, error) {
		return shown(act(c, ctx, in.ID))
	}
}

type waitInput struct {
	agentID
	Seconds waitSeconds `json:"timeout_seconds,omitempty"`
}

type waitResult struct {
	Settled bool `json:"settled"`
	changed
}

func waitForAgent(ctx context.Context, c *call, in waitInput) (waitResult, string, error) {
	seconds := min(in.Seconds, maxWait)
	if seconds <= 0 {
		seconds = defaultWait
	}
	end, over := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
	defer over()
	a, err := c.GetAgent(ctx, in.ID, client.GetAgentParams{Wait: int64(seconds)})
	// The API waits for a status. A new pod of a running agent is looked at.
	for err == nil && isReplaced(a) && pause(end, podPoll) {
		a, err = c.GetAgent(ctx, in.ID, client.GetAgentParams{})
	}
	if err != nil {
		return waitResult{}, "", err
	}
	out := waitResult{Settled: a.IsReady(), changed: changeOf(a)}
	switch {
	case out.Settled:
		return out, say(a), nil
	case isReplaced(a):
		return out, fmt.Sprintf("A new pod of %q is starting. Call wait_for_agent again, or diagnose_agent if it "+
			"takes longer than some minutes.", a.Name), nil
	case a.Status == client.AgentStatusDeleting:
		return out, say(a), nil
	}
	return out, fmt.Sprintf("%q is still %s. Call wait_for_agent again, or diagnose_agent if it takes long: a start "+
		"ends in error after 15 minutes at the latest.", a.Name, a.Status), nil
}

// podPoll is the pause between two looks at a new pod.
const podPoll = 2 * time.Second

// isReplaced reports whether a running agent waits for a new pod, as after a restart or a change of its variables.
func isReplaced(a *client.Agent) bool { return a.Status.IsSettled() && !a.IsReady() }

// pause waits for d, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

type deleteInput struct {
	agentID
	Name string `json:"name" jsonschema:"Its name, to make sure that it is the right one."`
}

// deleteAgent deletes an agent if the caller knows its name: an id alone is easily mistaken for another one.
func deleteAgent(ctx context.Context, c *call, in deleteInput) (changed, string, error) {
	a, err := c.GetAgent(ctx, in.ID, client.GetAgentParams{})
	if err != nil {
		return changed{}, "", err
	}
	if a.Name != strings.TrimSpace(in.Name) {
		return changed{}, "", invalid("name", "The agent with this id has another name. It was not deleted")
	}
	return shown(c.DeleteAgent(ctx, in.ID, c.options()...))
}

// prices describes the plans and what they cost, from the data that the API enforces.
func prices() string {
	var b strings.Builder
	for i, p := range plan.All() {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s: %g CPU, %d MiB memory, %d GiB volume, up to %d agents, ", p.ID, p.CPUCores(),
			p.MemoryBytes()>>20, p.StorageGiB, p.MaxAgents)
		if p.PriceUSDMonth == nil {
			b.WriteString("price by contract")
		} else {
			fmt.Fprintf(&b, "$%g a month", *p.PriceUSDMonth)
		}
		if p.SleepAfterSeconds > 0 {
			fmt.Fprintf(&b, ", agents sleep after %d s without use by default", p.SleepAfterSeconds)
		}
	}
	return b.String()
}
