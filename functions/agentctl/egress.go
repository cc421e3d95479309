package agentctl

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/egress"
)

// egressCommand is the family of commands for what agents may reach.
func (t *tool) egressCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "egress", Short: "Restrict which hosts an agent may reach, and see which it tried",
		Long: "Restrict which hosts an agent may reach, and see which it tried. An agent with the mode open reaches " +
			"the internet on the ports of its plan. One with the mode allow_list reaches the hosts on its list, on " +
			"the ports 80 and 443, and nothing else. HOST is a name such as api.example.com, *.example.com for all " +
			"names below example.com, or * for every name.",
	}
	c.AddCommand(t.showEgress(), t.setEgress(), t.allowHosts(), t.denyHosts(), t.removeHosts(),
		t.egressLog())
	return c
}

func (t *tool) showEgress() *cobra.Command {
	c := t.agentCommand("show", "Show what an agent may reach, and what it was refused", "GetAgent",
		func(ctx context.Context, api *client.Client, a *client.Agent) error {
			lacking, err := lackingHosts(ctx, api, a)
			if err != nil {
				return err
			}
			return t.showRules(a, field{"Refused", lacking})
		})
	c.Example = "  agentctl egress show my-agent\n" +
		"  agentctl egress show my-agent -o json | jq -r '.allow[]'"
	return c
}

// showRules prints what an agent may reach.
func (t *tool) showRules(a *client.Agent, more ...field) error {
	fields := slices.Concat([]field{{"Agent", a.Name}}, egressFields(a.Egress), more)
	return t.show(object(a.Egress, a.ID, fields))
}

// egressFields describes rules. The lists of an open agent are shown, too: a change of its mode makes them count.
func egressFields(e client.AgentEgress) []field {
	mode := "open: every host"
	if e.Mode == client.EgressModeAllowList {
		mode = "allow_list: the allowed hosts only"
	}
	allowed := strings.Join(e.Allow, ", ")
	if e.Mode == client.EgressModeAllowList && allowed == "" {
		allowed = "no host"
	}
	return []field{{"Egress", mode}, {"Allowed", allowed}, {"Denied", strings.Join(e.Deny, ", ")}}
}

// egressText is what an agent may reach, in a line.
func egressText(e client.AgentEgress) string {
	if e.Mode != client.EgressModeAllowList {
		return string(e.Mode)
	}
	text := string(e.Mode) + ": " + cmp.Or(strings.Join(e.Allow, ", "), "no host")
	if len(e.Deny) > 0 {
		text += "; denied: " + strings.Join(e.Deny, ", ")
	}
	return text
}

// egressFlags are the flags of what an agent may reach.
type egressFlags struct {
	mode        string
	allow, deny patternList
}

// add defines the flags. Their names have a prefix in commands that are about more than this.
func (f *egressFlags) add(c *cobra.Command, prefix string) {
	c.Flags().StringVar(&f.mode, prefix+"mode", "",
		"`MODE` of the egress: open for every host, or allow_list for those that are allowed")
	c.Flags().Var(&f.allow, prefix+"allow",
		"what the agent may reach: `HOSTS` with commas, or an empty text for none; replaces the list")
	c.Flags().Var(&f.deny, prefix+"deny",
		"what the agent may not reach although it is allowed: `HOSTS` with commas; replaces the list")
	completeWith(c, prefix+"mode", string(client.EgressModeOpen), string(client.EgressModeAllowList))
}

// spec returns what the flags say, or nil if they say nothing.
func (f *egressFlags) spec() *client.AgentEgressSpec {
	if f.mode == "" && f.allow.hosts == nil && f.deny.hosts == nil {
		return nil
	}
	return &client.AgentEgressSpec{
		Mode: (*client.EgressMode)(given(f.mode)), Allow: f.allow.hosts, Deny: f.deny.hosts,
	}
}

// patternList is the value of a flag that names hosts. Its list is nil until the flag is given.
type patternList struct{ hosts *[]string }

// String implements pflag.Value.
func (v *patternList) String() string { return strings.Join(valueOr(v.hosts), ",") }

// Type implements pflag.Value.
func (*patternList) Type() string { return "strings" }

// Set implements pflag.Value. A flag that is repeated adds to its list.
func (v *patternList) Set(text string) error {
	hosts := append([]string{}, valueOr(v.hosts)...)
	if text != "" {
		for host := range strings.SplitSeq(text, ",") {
			hosts = append(hosts, strings.TrimSpace(host))
		}
	}
	v.hosts = &hosts
	return checkPatterns(hosts)
}

// checkPatterns returns what is wrong with the first pattern that the API would refuse, which counts them instead of
// quoting them.
func checkPatterns(patterns []string) error {
	for _, p := range patterns {
		if why := egress.PatternViolation(p); why != "" {
			return usagef("%q: %s", p, why)
		}
	}
	return nil
}

func (t *tool) setEgress() *cobra.Command {
	var change changeFlags
	var flags egressFlags
	c := t.agentCommand("set", "Change what an agent may reach", "UpdateAgent", nil)
	c.Long = "Change what an agent may reach. What has no flag stays as it is. A change of the mode replaces the pod " +
		"of a running agent. A change of the lists takes effect within seconds, also for open connections. With " +
		"--dry-run, the command names the hosts that the agent used in the last 7 days and would no longer reach."
	c.Example = "  agentctl egress set my-agent --mode allow_list --allow 'api.openai.com,*.github.com' --dry-run\n" +
		"  agentctl egress set my-agent --mode allow_list --allow 'api.openai.com,*.github.com'\n" +
		"  agentctl egress set my-agent --mode open"
	c.RunE = t.forAgent(func(ctx context.Context, api *client.Client, a *client.Agent) error {
		spec := flags.spec()
		if spec == nil {
			return usagef("there is nothing to change: use --mode, --allow or --deny")
		}
		after, err := api.UpdateAgent(ctx, a.ID, client.UpdateAgentRequest{Egress: spec}, change.options()...)
		if err != nil {
			return err
		}
		return t.finishEgress(after, &change)
	})
	flags.add(c, "")
	change.add(c, "", true)
	return c
}

// finishEgress shows what an agent may reach after a change, or what the change would do.
func (t *tool) finishEgress(a *client.Agent, change *changeFlags) error {
	if change.dryRun.on {
		return t.showRehearsal(&change.dryRun.answer)
	}
	err := t.showRules(a)
	if !a.Status.IsSettled() || a.DashboardWarming {
		t.next("The pod of the agent is replaced. To follow it: agentctl agents wait %s", a.ID)
	}
	return err
}

// hostsCommand returns a command whose arguments are an agent and hosts.
func (t *tool) hostsCommand(name, short, operationID string, change *changeFlags, run agentRun) *cobra.Command {
	c := t.agentCommand(name, short, operationID, nil)
	c.Use, c.Args = name+" AGENT HOST...", cobra.MinimumNArgs(2)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkPatterns(args[1:]); err != nil {
			return err
		}
		return t.forAgent(run)(cmd, args)
	}
	change.add(c, "", true)
	return c
}

func (t *tool) allowHosts() *cobra.Command {
	var change changeFlags
	var c *cobra.Command
	c = t.hostsCommand("allow", "Allow an agent to reach more hosts", "AllowEgressHosts", &change,
		func(ctx context.Context, api *client.Client, a *client.Agent) error {
			hosts := client.AllowEgressHostsRequest{Hosts: c.Flags().Args()[1:]}
			after, err := api.AllowEgressHosts(ctx, a.ID, hosts, change.options()...)
			if err != nil {
				return err
			}
			return t.finishEgress(after, &change)
		})
	c.Long = "Allow an agent to reach more hosts, and no longer deny them. The agent must have the mode allow_list. " +
		"It reaches them within seconds, without a restart."
	c.Example = "  agentctl egress allow my-agent api.openai.com '*.github.com'\n" +
		"  agentctl egress allow my-agent api.openai.com --dry-run"
	return c
}

func (t *tool) denyHosts() *cobra.Command {
	var change changeFlags
	var c *cobra.Command
	c = t.hostsCommand("deny", "Deny an agent hosts that its list allows", "UpdateAgent", &change,
		t.changeRules(&change, func(rules client.AgentEgress) (client.AgentEgressSpec, error) {
			deny := append(rules.Deny, c.Flags().Args()[1:]...)
			return client.AgentEgressSpec{Deny: &deny}, nil
		}))
	c.Long = "Deny an agent hosts that its list of allowed hosts has, such as one below *.example.com. Its " +
		"connections to them are closed within seconds. This means nothing for an agent with the mode open."
	c.Example = "  agentctl egress deny my-agent telemetry.example.com"
	return c
}

func (t *tool) removeHosts() *cobra.Command {
	var change changeFlags
	var c *cobra.Command
	c = t.hostsCommand("remove", "Remove hosts from the lists of an agent", "UpdateAgent", &change,
		t.changeRules(&change, func(rules client.AgentEgress) (client.AgentEgressSpec, error) {
			hosts := c.Flags().Args()[1:]
			for i, host := range hosts {
				hosts[i] = strings.ToLower(host)
				if !slices.Contains(rules.Allow, hosts[i]) && !slices.Contains(rules.Deny, hosts[i]) {
					return client.AgentEgressSpec{}, usagef("neither list of the agent has %s", host)
				}
			}
			isRemoved := func(host string) bool { return slices.Contains(hosts, host) }
			allow, deny := slices.DeleteFunc(rules.Allow, isRemoved), slices.DeleteFunc(rules.Deny, isRemoved)
			return client.AgentEgressSpec{Allow: &allow, Deny: &deny}, nil
		}))
	c.Long = "Remove hosts from what an agent may reach, and from what it may not reach: all that are named, or none " +
		"if neither list has one of them. Connections that are no longer allowed are closed within seconds."
	c.Example = "  agentctl egress remove my-agent api.openai.com --dry-run\n" +
		"  agentctl egress remove my-agent '*.github.com'"
	return c
}

// changeRules returns what changes the lists of an agent. It fails if the agent changes in between.
func (t *tool) changeRules(change *changeFlags,
	apply func(client.AgentEgress) (client.AgentEgressSpec, error),
) agentRun {
	return func(ctx context.Context, api *client.Client, a *client.Agent) error {
		after, err := change.modify(ctx, api, a.ID, func(a *client.Agent) (client.UpdateAgentRequest, error) {
			spec, err := apply(a.Egress)
			return client.UpdateAgentRequest{Egress: &spec}, err
		})
		if err != nil {
			return err
		}
		return t.finishEgress(after, change)
	}
}
