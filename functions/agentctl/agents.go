package agentctl

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// operation is the annotation of a command that names the operation of the API that it is for. The description's
// samples follow from it.
const operation = "operation"

// sends returns the annotation of a command for an operation of the API.
func sends(operationID string) map[string]string { return map[string]string{operation: operationID} }

// agentsCommand is the family of commands for agents.
func (t *tool) agentsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "agents", Aliases: []string{"agent"}, Short: "Create, watch and change agents",
		Long: "Create, watch and change agents. AGENT is the id of an agent, or a name that only one agent has.",
	}
	c.AddCommand(t.listAgents(), t.getAgent(), t.createAgent(), t.updateAgent(), t.deleteAgent())
	c.AddCommand(t.agentActions()...)
	c.AddCommand(t.migrateSandbox(), t.waitAgent(), t.openAgent(), t.agentLogs(), t.agentMetrics(), t.diagnoseAgent())
	c.AddCommand(t.agentReceipt(), t.agentExec(), t.agentTerminal(), t.agentCopy())
	return c
}

func (t *tool) listAgents() *cobra.Command {
	var params client.ListAgentsParams
	c := &cobra.Command{
		Use: "list", Short: "List the organization's agents, newest first", Args: cobra.NoArgs,
		Example: "  agentctl agents list --status error\n" +
			"  agentctl agents list -o json | jq -r '.[].dashboard_url'",
		Annotations: sends("ListAgents"),
		RunE: t.calling(func(ctx context.Context, api *client.Client, _ []string) error {
			asleep := params.Status == statusAsleep
			if asleep {
				params.Status = client.AgentStatusPaused
			}
			params.Limit = largestPage
			agents, err := collect(api.ListAgents(params).All(ctx))
			if err != nil {
				return err
			}
			if asleep {
				agents = slices.DeleteFunc(agents, func(a client.Agent) bool { return !isAsleep(&a) })
			}
			if len(agents) == 0 && t.output.kind == formatTable {
				t.note("There are no such agents. Create one: agentctl agents create NAME --plan hobby")
				return nil
			}
			return t.show(t.agentTable(agents))
		}),
	}
	c.Flags().StringVar(&params.Name, "name", "", "only agents with exactly this name")
	c.Flags().StringVar((*string)(&params.Status), "status", "",
		"only agents with this status, or those that are asleep")
	c.Flags().StringVar((*string)(&params.ResourcePlan), "plan", "", "only agents on this plan")
	c.Flags().StringVar(&params.Region, "region", "", "only agents in this region")
	c.Flags().StringVar(&params.Image, "image", "", "only agents with this image, by its id")
	c.Flags().StringVar(&params.Version, "image-version", "", "only agents with this version of their image")
	completeWith(c, "status", "pending", "provisioning", "running", "paused", statusAsleep, "stopped", "error",
		"deleting")
	completePlan(c)
	return c
}

// agentTable shows agents.
func (t *tool) agentTable(agents []client.Agent) result {
	return list(agents, func(a client.Agent) string { return a.ID }, []column[client.Agent]{
		{"ID", func(a client.Agent) string { return a.ID }},
		{"NAME", func(a client.Agent) string { return a.Name }},
		{"STATUS", func(a client.Agent) string { return statusWord(&a) }},
		{"PLAN", func(a client.Agent) string { return string(a.ResourcePlan) }},
		{"IMAGE", imageOf},
		{"REGION", func(a client.Agent) string { return a.Region }},
		{"AGE", func(a client.Agent) string { return t.age(a.CreatedAt) }},
	})
}

// apiRun is what a command does with the API.
type apiRun func(ctx context.Context, api *client.Client, args []string) error

// calling returns the run function of a command that calls the API.
func (t *tool) calling(run apiRun) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		api, err := t.client()
		if err != nil {
			return err
		}
		return run(cmd.Context(), api, args)
	}
}

// agentRun is what a command does with the agent that its first argument names.
type agentRun func(ctx context.Context, api *client.Client, a *client.Agent) error

// forAgent returns the run function of a command whose first argument names an agent.
func (t *tool) forAgent(run agentRun) func(*cobra.Command, []string) error {
	return t.forAgentAnd(func(ctx context.Context, api *client.Client, a *client.Agent, _ []string) error {
		return run(ctx, api, a)
	})
}

// forAgentAnd is forAgent for a command with further arguments, the rest.
func (t *tool) forAgentAnd(
	run func(ctx context.Context, api *client.Client, a *client.Agent, rest []string) error,
) func(*cobra.Command, []string) error {
	return t.calling(func(ctx context.Context, api *client.Client, args []string) error {
		a, err := t.agent(ctx, api, args[0])
		if err != nil {
			return err
		}
		return run(ctx, api, a, args[1:])
	})
}

// agentCommand returns a command for one agent.
func (t *tool) agentCommand(name, short, operationID string, run agentRun) *cobra.Command {
	return &cobra.Command{
		Use: name + " AGENT", Short: short, Args: cobra.ExactArgs(1), Annotations: sends(operationID),
		RunE: t.forAgent(run), ValidArgsFunction: t.completeAgents,
	}
}

func (t *tool) getAgent() *cobra.Command {
	c := t.agentCommand("get", "Show an agent", "GetAgent",
		func(_ context.Context, _ *client.Client, a *client.Agent) error { return t.show(t.agentView(a)) })
	c.Example = "  agentctl agents get my-agent\n  agentctl agents get my-agent -o jsonpath='{.status}'"
	return c
}

// agentView shows one agent.
func (t *tool) agentView(a *client.Agent) result {
	limits := a.Config.PlanLimits
	fields := []field{
		{"ID", a.ID},
		{"Name", a.Name},
		{"Status", statusText(a)},
		{"Plan", fmt.Sprintf("%s (%s CPU, %s memory, %s storage)", a.ResourcePlan, short(limits.CPUCores),
			bytesText(float64(limits.MemoryBytes)), bytesText(float64(limits.StorageBytes)))},
		{"Region", a.Region},
	}
	fields = append(append(fields, describeImage(a)...), []field{
		{"Variables", variables(a)},
		{"Files", fileNames(a)},
		{"Created", t.moment(a.CreatedAt)},
		{"Updated", t.moment(a.UpdatedAt)},
	}...)
	if len(a.PublicPaths) > 0 {
		fields = append(fields, field{"Public paths", strings.Join(a.PublicPaths, ", ")})
	}
	if text := sleepText(a.Sleep); text != "" {
		fields = append(fields, field{"Sleeps", text})
	}
	if a.Egress.Mode != client.EgressModeOpen || len(a.Egress.Allow)+len(a.Egress.Deny) > 0 {
		fields = append(fields, egressFields(a.Egress)...)
	}
	if a.Config.SandboxEnabled {
		fields = append(fields, field{"Sandbox", "on"})
	}
	if a.CloneOf != nil {
		fields = append(fields, field{"Clone of", a.CloneOf.AgentID + ", snapshot " + a.CloneOf.SnapshotID})
	}
	if len(a.UnsetSecrets) > 0 {
		fields = append(fields, field{"Lacks secrets", strings.Join(a.UnsetSecrets, ", ")})
	}
	if e := a.Config.Error; e != nil {
		fields = append(fields, field{"Problem", fmt.Sprintf("%s (%s)", e.Message, e.Code)})
	}
	if n := len(a.Config.AllowedActions); n > 0 {
		actions := make([]string, n)
		for i, action := range a.Config.AllowedActions {
			actions[i] = string(action)
		}
		fields = append(fields, field{"Possible", strings.Join(actions, ", ")})
	}
	fields = append(fields, field{"API", textOr(a.APIURL, "")}, field{"Dashboard", textOr(a.DashboardURL, "")})
	return object(a, a.ID, fields)
}

// statusText is the status with what qualifies it.
func statusText(a *client.Agent) string {
	text := statusWord(a)
	switch {
	case isAsleep(a) && slices.Contains(a.Sleep.WakeOn, client.AgentWakerRequest):
		text += " (a request wakes it)"
	case a.Config.StatusReason != nil && *a.Config.StatusReason == client.AgentStatusReasonBilling:
		text += " (because of the organization's account)"
	case a.Status == client.AgentStatusRunning && a.DashboardWarming:
		text += " (a new pod starts)"
	case a.Status == client.AgentStatusRunning && a.CredentialRotationPending:
		text += " (new credentials are pending)"
	}
	return text
}

// fileNames lists the paths of the agent's files.
func fileNames(a *client.Agent) string {
	paths := make([]string, len(a.Files))
	for i, f := range a.Files {
		paths[i] = f.Path
		if f.Secret != nil {
			paths[i] += " (secret " + *f.Secret + ")"
		}
	}
	return strings.Join(paths, ", ")
}

// variables lists the keys of the agent's environment.
func variables(a *client.Agent) string {
	keys := slices.Sorted(maps.Keys(a.EnvVars))
	for i, key := range keys {
		if a.EnvVars[key] == client.AgentEnvVarSourceGSM {
			keys[i] += " (secret)"
		}
	}
	return strings.Join(keys, ", ")
}

// agent returns the agent with an id, or with a name that only one agent has.
func (t *tool) agent(ctx context.Context, api *client.Client, nameOrID string) (*client.Agent, error) {
	if uuid.Validate(nameOrID) == nil {
		return api.GetAgent(ctx, nameOrID, client.GetAgentParams{})
	}
	if nameOrID == "" {
		return nil, usagef("the agent's id or name is empty")
	}
	found, err := collect(api.ListAgents(client.ListAgentsParams{Name: nameOrID}).All(ctx))
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, withNext(notFoundError{fmt.Errorf("no agent has the name or id %q", nameOrID)},
			"Run: agentctl agents list")
	case len(found) > 1:
		ids := make([]string, len(found))
		for i, a := range found {
			ids[i] = a.ID
		}
		return nil, usagef("%d agents have the name %q: use one of the ids %s", len(found), nameOrID,
			strings.Join(ids, ", "))
	}
	return &found[0], nil
}
