package agentctl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// changeFlags are the flags of commands that change an agent.
type changeFlags struct {
	wait              bool
	dryRun            rehearsalFlag
	idempotency, etag string
}

// add defines the flags: --wait with a usage, unless no worker carries out the change. A new agent has no version to
// match.
func (f *changeFlags) add(c *cobra.Command, wait string, existing bool) {
	if wait != "" {
		c.Flags().BoolVar(&f.wait, "wait", false, wait)
	}
	f.dryRun.add(c)
	c.Flags().Var((*keyValue)(&f.idempotency), "idempotency-key",
		"a `KEY` that makes it safe to run the same command again within 24 hours")
	if existing {
		c.Flags().Var((*etagValue)(&f.etag), "if-match", "fail unless the agent has the version with this `ETAG`")
	}
}

// etagValue is the value of --if-match. An empty one, as of a variable that is not set, is no missing condition.
type etagValue string

// String implements pflag.Value.
func (v *etagValue) String() string { return string(*v) }

// Type implements pflag.Value.
func (*etagValue) Type() string { return "string" }

// Set implements pflag.Value.
func (v *etagValue) Set(value string) error {
	if value == "" {
		return errors.New("want the ETag of a version")
	}
	*v = etagValue(value)
	return nil
}

// keyValue is the value of --idempotency-key, which a request sends in a header.
type keyValue string

// String implements pflag.Value.
func (v *keyValue) String() string { return string(*v) }

// Type implements pflag.Value.
func (*keyValue) Type() string { return "string" }

// Set implements pflag.Value.
func (v *keyValue) Set(value string) error {
	const longest = 255
	isInvisible := func(c rune) bool { return c <= ' ' || c > '~' }
	if value == "" || len(value) > longest || strings.ContainsFunc(value, isInvisible) {
		return fmt.Errorf("want 1 to %d visible ASCII characters", longest)
	}
	*v = keyValue(value)
	return nil
}

// options returns what the flags add to a call.
func (f *changeFlags) options() []client.CallOption {
	options := f.dryRun.options()
	if f.idempotency != "" {
		options = append(options, client.IdempotencyKey(f.idempotency))
	}
	if f.etag != "" {
		options = append(options, client.IfMatch(f.etag))
	}
	return options
}

// modify changes an agent by what apply makes of its present state. It fails if the agent changes in between.
func (f *changeFlags) modify(ctx context.Context, api *client.Client, id string,
	apply func(*client.Agent) (client.UpdateAgentRequest, error),
) (*client.Agent, error) {
	var header http.Header
	a, err := api.GetAgent(ctx, id, client.GetAgentParams{}, client.ResponseHeader(&header))
	if err != nil {
		return nil, err
	}
	body, err := apply(a)
	if err != nil {
		return nil, err
	}
	options := f.options()
	if f.etag == "" {
		options = append(options, client.IfMatch(header.Get("ETag")))
	}
	return api.UpdateAgent(ctx, id, body, options...)
}

func (t *tool) createAgent() *cobra.Command {
	var change changeFlags
	var in inputFlags
	var plan, region, image, snapshot, importURL string
	var public []string
	var sleep sleepFlags
	c := &cobra.Command{
		Use: "create NAME", Short: "Create an agent", Args: cobra.ExactArgs(1),
		Long: "Create an agent. Variables whose key or value looks like a secret go to the secret store. Their " +
			"values must not be arguments: use --env-file, or --env KEY without a value, which takes the value of " +
			"the variable KEY in the tool's own environment. With --from-snapshot the agent is a clone.",
		Example: "  agentctl agents create my-agent --plan hobby --env LOG_LEVEL=info --wait\n" +
			"  agentctl agents create my-agent --plan startup --image assistant@2.1.0\n" +
			"  agentctl agents create my-agent --plan hobby --env-file .env --wait --timeout 5m -o json\n" +
			"  agentctl agents create my-agent --env-file .env --file /config/prompt.md=@prompt.md " +
			"--file /config/key:0600=secret:OPENAI_API_KEY\n" +
			"  agentctl agents create a-copy --from-snapshot \"$SNAPSHOT_ID\" --env-file .env --wait\n" +
			"  OPENAI_API_KEY=$(pass show openai) agentctl agents create my-agent --plan hobby --env OPENAI_API_KEY",
		Annotations: sends("CreateAgent"),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := client.CreateAgentRequest{Name: args[0], ResourcePlan: client.PlanID(plan), PublicPaths: public}
			if err := in.fillNew(t, &body); err != nil {
				return err
			}
			var err error
			if body.Sleep, err = sleep.spec(); err != nil {
				return err
			}
			api, err := t.client()
			if err != nil {
				return err
			}
			body.Region, body.Image, body.FromSnapshot = given(region), given(image), given(snapshot)
			body.ImportURL = given(importURL)
			a, err := api.CreateAgent(cmd.Context(), body, change.options()...)
			if err != nil {
				return err
			}
			if err = t.finish(cmd.Context(), api, a, &change, client.AgentStatusRunning); err == nil {
				t.afterCreate(a, change.wait)
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&plan, "plan", "hobby", "the agent's plan, which sets its size")
	f.StringVar(&region, "region", "", "the agent's region")
	f.StringVar(&image, "image", "",
		"what the agent runs: `IMAGE` or IMAGE@VERSION as agentctl images lists them, or the reference of a custom image")
	f.StringVar(&snapshot, "from-snapshot", "",
		"begin with the data of the snapshot with this `ID`, and with the variables, config, files, image, sleep and "+
			"schedules of its agent; secrets are left out, and the schedules are disabled")
	f.StringVar(&importURL, "import-url", "",
		"begin with the files of an archive that snapshots export has saved, at an https `URL`, which may be signed")
	f.StringSliceVar(&public, "public-path", nil, publicPathUsage+"; can be repeated")
	sleep.add(c)
	in.add(c)
	change.add(c, "wait until the agent runs", false)
	completePlan(c)
	return c
}

// given returns a pointer to the value of a flag; nil for none.
func given(value string) *string {
	if value == "" {
		return nil
	}
	return &value
}

// afterCreate says what the user can do with a new agent.
func (t *tool) afterCreate(a *client.Agent, waited bool) {
	if waited {
		t.next("Open its dashboard: agentctl agents open %s\nRead its log: agentctl agents logs %s", a.ID, a.ID)
	}
	if a != nil && len(a.UnsetSecrets) > 0 {
		t.next("The clone lacks secrets: %s. Set them: agentctl secrets set %s KEY",
			strings.Join(a.UnsetSecrets, ", "), a.ID)
	}
}

// fillNew adds what the flags say to a creation.
func (f *inputFlags) fillNew(t *tool, body *client.CreateAgentRequest) (err error) {
	if body.EnvVars, err = f.env(t); err != nil {
		return err
	}
	if body.Config, err = f.configuration(t); err != nil {
		return err
	}
	body.Egress = f.egress.spec()
	body.Files, err = f.specs(t)
	return err
}

const publicPathUsage = "let anyone request `PATH` of the agent without a credential, or everything below a path that " +
	"ends with a slash, such as /hooks/"

const nothingToChange = "there is nothing to change: use --name, --plan, --image, --image-policy, --public-path, " +
	"--sleep-after, --wake-on, --egress-mode, --egress-allow, --egress-deny, --env, --unset-env, --env-file, " +
	"--config, --file or --unset-file"

func (t *tool) updateAgent() *cobra.Command {
	var change changeFlags
	var in inputFlags
	var software imageFlags
	var name, plan string
	var unset, unsetFiles []string
	var public publicFlags
	var sleep sleepFlags
	c := t.agentCommand("update", "Change an agent's name, size, variables, configuration or files", "UpdateAgent", nil)
	c.Long = "Change an agent's name, size, variables, configuration or files. Variables, files and keys that are " +
		"not named stay. Every change but those of the name and of the lists of hosts restarts the agent. A volume " +
		"grows with the size and never shrinks. Secrets are changed with: agentctl secrets set"
	c.Example = "  agentctl agents update my-agent --env LOG_LEVEL=debug --unset-env OLD --wait\n" +
		"  agentctl agents update my-agent --image assistant --wait\n" +
		"  agentctl agents update my-agent --image-policy window " +
		"--maintenance-window saturday,sunday/02:30/4/Europe/Berlin\n" +
		"  agentctl agents update my-agent --public-path /telegram --public-path /hooks/\n" +
		"  agentctl agents update my-agent --plan startup --dry-run\n" +
		"  agentctl agents update my-agent --sleep-after 2h --wake-on request\n" +
		"  agentctl agents update my-agent --file /data/settings.json=@settings.json --wait\n" +
		"  agentctl agents update my-agent --config '{\"team\": \"support\", \"old\": null}'"
	c.RunE = t.forAgent(func(ctx context.Context, api *client.Client, a *client.Agent) error {
		body := client.UpdateAgentRequest{}
		if name != "" {
			body.Name = &name
		}
		if size := client.PlanID(plan); plan != "" {
			body.ResourcePlan = &size
		}
		if err := in.fill(t, &body, a, unset, unsetFiles); err != nil {
			return err
		}
		public.fill(&body)
		moves, err := software.fill(&body)
		if err != nil {
			return err
		}
		if body.Sleep, err = sleep.spec(); err != nil {
			return err
		}
		if isEmpty(body) && !moves {
			return usagef(nothingToChange)
		}
		if a, err = api.UpdateAgent(ctx, a.ID, body, change.options()...); err != nil {
			return err
		}
		return t.finish(ctx, api, a, &change, "")
	})
	c.Flags().StringVar(&name, "name", "", "the new name")
	c.Flags().StringVar(&plan, "plan", "", "the plan of the new size")
	c.Flags().StringSliceVar(&unset, "unset-env", nil, "remove the variable `KEY`; can be repeated")
	c.Flags().StringArrayVar(&unsetFiles, "unset-file", nil,
		"take the file `PATH` from the agent; one below /data stays on its volume; can be repeated")
	public.add(c)
	sleep.add(c)
	software.add(c)
	in.add(c)
	change.add(c, "wait until the agent runs with the change", true)
	completePlan(c)
	return c
}

// publicFlags are the flags that change the public paths of an agent.
type publicFlags struct {
	paths []string
	none  bool
}

func (f *publicFlags) add(c *cobra.Command) {
	c.Flags().StringSliceVar(&f.paths, "public-path", nil,
		publicPathUsage+"; can be repeated, and replaces the present list")
	c.Flags().BoolVar(&f.none, "no-public-paths", false, "remove the agent's public paths")
	c.MarkFlagsMutuallyExclusive("public-path", "no-public-paths")
}

func (f *publicFlags) fill(body *client.UpdateAgentRequest) {
	if len(f.paths) > 0 || f.none {
		body.PublicPaths = new(append([]string{}, f.paths...)) // a list, also if it is empty
	}
}

// isEmpty reports whether a change, but for the image and its policy, changes nothing.
func isEmpty(b client.UpdateAgentRequest) bool {
	return b.Name == nil && b.EnvVars == nil && b.Config == nil && b.ResourcePlan == nil && b.Files == nil &&
		b.PublicPaths == nil && b.Sleep == nil && b.Egress == nil
}
