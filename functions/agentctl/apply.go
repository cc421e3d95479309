package agentctl

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"agents.example/controlplane/functions/agentctl/manifest"
	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/parallel"
)

// applyConcurrency is how many agents are read and changed concurrently.
const applyConcurrency = 4

// applyFlags are the flags of apply.
type applyFlags struct {
	file                                           string
	prune, yes, dryRun, wait, adopt, renewsSecrets bool
}

const applyHelp = `Create and change agents as a file describes them. FILE is YAML or JSON, a folder with such files, or - for
standard input. It gives the set of agents a name, and each agent a key:

  manifest: production
  agents:
    support:
      name: Support Assistant   # otherwise the key
      resource_plan: startup    # otherwise hobby
      image: assistant@2.1.0
      env_vars: {LOG_LEVEL: info}
      secrets:
        OPENAI_API_KEY: {env: OPENAI_API_KEY}
        TLS_KEY: {file: key.pem}
        SEARCH_KEY: {env: SEARCH_KEY, inject: {hosts: [api.example.com], header: x-api-key, format: "{value}"}}
      files:
        - {path: /config/prompt.md, from: prompt.md}
      schedules:
        - {id: daily, cron: "30 9 * * MON-FRI", path: /v1/run}
      egress: {mode: allow_list, allow: [api.openai.com, api.example.com]}
      sleep: {after_seconds: 1800}

The other fields are region, image_policy, maintenance_window, config and public_paths, as in the API. A new agent
begins with the data of a snapshot with from_snapshot: ID, and also has what its agent has, but for the fields of the
file; or with the files of an archive with import_url: {env: ARCHIVE_URL} or {file: PATH}, which say where its address
is. Neither changes an agent that is there already.

A field that the file has is the whole of what the agent shall have: variables, keys of the config, files, schedules and
public paths that it does not name are removed. A field that it does not have stays as it is. Secrets are the exception:
those that it does not name stay, and the values of those that the agent has already are sent again only with
--renew-secrets, because the API never shows them. Values of secrets are never in the file. With inject, the agent does
not get the value: it is added to the agent's requests to these hosts. A list of egress that is left out stays.

The agents are found again by the key agentctl of their config, which has the names of the manifest and of the agent's
key. So an agent can be renamed, and another run continues what one that was interrupted has left. An agent that no
manifest has is taken over only with --adopt, by its name.

First, everything is rehearsed: a problem that the API would refuse changes nothing. Then the agents are changed, some
at a time. One that fails does not stop the others, and another run continues. A change that was made to an agent since
it was read is not overwritten: the agent is read again.`

func (t *tool) applyCommand() *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use: "apply -f FILE", Short: "Create and change agents as a file describes them", Args: cobra.NoArgs,
		Long: applyHelp,
		Example: "  agentctl apply -f agents.yaml --dry-run\n" +
			"  agentctl apply -f agents.yaml --wait --timeout 10m\n" +
			"  agentctl apply -f agents/ --prune --yes\n" +
			"  agentctl export my-agent --manifest production > agents.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.file == "" {
				return usagef("say which file: -f FILE, -f FOLDER, or -f - for standard input")
			}
			return t.apply(cmd.Context(), f)
		},
	}
	c.Flags().StringVarP(&f.file, "filename", "f", "", "the `FILE`, the folder, or - for standard input")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false,
		"show what differs and what a change would do, and change nothing; the exit code is 10 if something differs")
	c.Flags().BoolVar(&f.prune, "prune", false,
		"delete the agents of the manifest that the file does not name any more")
	c.Flags().BoolVar(&f.yes, "yes", false, "delete without asking")
	c.Flags().BoolVar(&f.wait, "wait", false,
		"wait until the agents run with the changes; an agent in error is a failure")
	c.Flags().BoolVar(&f.adopt, "adopt", false, "take over agents that no manifest has, by their names")
	c.Flags().BoolVar(&f.renewsSecrets, "renew-secrets", false,
		"send the values of all secrets, also of those that the agents have")
	c.MarkFlagsMutuallyExclusive("dry-run", "wait")
	return c
}

// application is one run of apply.
type application struct {
	*tool
	applyFlags

	api *client.Client
	set *manifest.Set
	// managed are the agents of the organization that are in some manifest, and free the others, but those that are
	// being deleted.
	managed, free []client.Agent
}

func (t *tool) apply(ctx context.Context, f applyFlags) error {
	set, err := manifest.Read(f.file, t.stdin)
	switch {
	case err != nil && ctx.Err() != nil: // while standard input was read
		return err
	case errors.Is(err, os.ErrNotExist):
		return usageError{err}
	case err != nil:
		return invalidf("nothing was sent, because the file has problems:\n  %s",
			strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	api, err := t.client()
	if err != nil {
		return err
	}
	r := &application{tool: t, applyFlags: f, api: api, set: set}
	if err := r.list(ctx); err != nil {
		return err
	}
	steps, err := r.plan(ctx)
	if err != nil {
		return err
	}
	if f.dryRun {
		return r.rehearsed(steps)
	}
	return r.run(ctx, steps)
}

// list reads the agents of the organization.
func (r *application) list(ctx context.Context) error {
	all, err := collect(r.api.ListAgents(client.ListAgentsParams{Limit: largestPage}).All(ctx))
	if err != nil {
		return err
	}
	r.managed, r.free = nil, nil
	for _, a := range all {
		switch name, _ := markOf(&a); {
		case a.Status == client.AgentStatusDeleting:
		case name == "":
			r.free = append(r.free, a)
		default:
			r.managed = append(r.managed, a)
		}
	}
	return nil
}

// markOf returns the manifest and the key of an agent, which its config has.
func markOf(a *client.Agent) (manifestName, key string) {
	mark, _ := a.Config.AdditionalProperties[manifest.ConfigKey].(map[string]any)
	manifestName, _ = mark["manifest"].(string)
	key, _ = mark["agent"].(string)
	return manifestName, key
}

// find returns the agent with a key of the manifest; nil if there is none.
func (r *application) find(key string) (*client.Agent, error) {
	var found []client.Agent
	for _, a := range r.managed {
		if name, k := markOf(&a); name == r.set.Name && k == key {
			found = append(found, a)
		}
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return &found[0], nil
	}
	return nil, invalidf("%d agents have this key of the manifest, such as %s and %s: delete one of them, or "+
		"remove the key %s from its config", len(found), found[0].ID, found[1].ID, manifest.ConfigKey)
}

// adopted returns the agent that an agent of the manifest takes over; nil if there is none with its name.
func (r *application) adopted(spec *manifest.Agent) (*client.Agent, error) {
	var found []client.Agent
	for _, a := range r.free {
		if a.Name == nameOf(spec) {
			found = append(found, a)
		}
	}
	switch {
	case len(found) == 0:
		return nil, nil
	case !r.adopt:
		return nil, invalidf("an agent that no manifest has is called %s already (%s): --adopt takes it over, and "+
			"another name makes another agent", found[0].Name, found[0].ID)
	case len(found) > 1:
		return nil, invalidf("%d agents are called %s, so none can be taken over", len(found), found[0].Name)
	}
	return &found[0], nil
}

// plan finds out what has to change. It changes nothing, and fails if the API would refuse a change.
func (r *application) plan(ctx context.Context) ([]*step, error) {
	steps := make([]*step, len(r.set.Agents))
	for i, spec := range r.set.Agents {
		steps[i] = &step{Key: spec.Key, Name: nameOf(spec), spec: spec, Action: actionCreate, Changes: []fieldChange{}}
	}
	if r.prune {
		for _, a := range r.leftOver() {
			_, key := markOf(&a)
			deletion := &step{Key: key, Name: a.Name, ID: a.ID, Action: actionDelete, Changes: []fieldChange{}}
			steps = append(steps, deletion)
		}
	}
	errs := parallel.ForEach(steps, applyConcurrency, func(s *step) error { return r.planStep(ctx, s) })
	if failed := failures(steps, errs); len(failed) > 0 {
		return nil, severally(failed, len(steps), "agents cannot be as the file says, so nothing was changed: the "+
			"rehearsals")
	}
	return steps, nil
}

// failures pairs steps with their errors.
func failures(steps []*step, errs []error) []failedObject {
	var failed []failedObject
	for i, err := range errs {
		if err != nil {
			failed = append(failed, failedObject{steps[i].Key, err})
		}
	}
	return failed
}

// leftOver lists the agents of the manifest that the file does not name any more.
func (r *application) leftOver() []client.Agent {
	return slices.DeleteFunc(slices.Clone(r.managed), func(a client.Agent) bool {
		name, key := markOf(&a)
		return name != r.set.Name ||
			slices.ContainsFunc(r.set.Agents, func(s *manifest.Agent) bool { return s.Key == key })
	})
}

// rehearsed shows what the run would do.
func (r *application) rehearsed(steps []*step) error {
	if err := r.showSteps(steps); err != nil {
		return err
	}
	r.nameLeftOver()
	if !slices.ContainsFunc(steps, (*step).differs) {
		r.next("Nothing differs from the file.")
		return nil
	}
	r.next("This was a rehearsal: nothing was changed.")
	return remoteExit{ExitDiffers}
}

// nameLeftOver says which agents --prune would delete.
func (r *application) nameLeftOver() {
	if r.prune {
		return
	}
	for _, a := range r.leftOver() {
		r.next("The file does not name %s (%s) any more, which stays. --prune deletes such agents.", a.Name, a.ID)
	}
}

// run carries out the steps.
func (r *application) run(ctx context.Context, steps []*step) error {
	if err := r.confirmPrune(steps); err != nil {
		return err
	}
	errs := parallel.ForEach(steps, applyConcurrency, func(s *step) error {
		err := ctx.Err()
		if err == nil {
			err = r.carryOut(ctx, s)
		}
		if err != nil {
			s.State, s.Error = stateFailed, err.Error()
		}
		return err
	})
	if r.wait {
		for i, err := range parallel.ForEach(steps, len(steps)+1, func(s *step) error { return r.awaitStep(ctx, s) }) {
			errs[i] = errors.Join(errs[i], err)
		}
	}
	if err := r.showSteps(steps); err != nil {
		return err
	}
	r.nameLeftOver()
	err := severally(failures(steps, errs), len(steps), "agents")
	if err == nil && !r.wait && slices.ContainsFunc(steps, (*step).differs) {
		r.next("To wait for them: agentctl apply -f %s --wait", r.file)
	} else if err != nil {
		r.next("The others are as the file says. Run the same command again to continue.")
	}
	return err
}

// confirmPrune asks before agents are deleted.
func (r *application) confirmPrune(steps []*step) error {
	var doomed []*client.Agent
	for _, s := range steps {
		if s.Action == actionDelete {
			doomed = append(doomed, &client.Agent{ID: s.ID, Name: s.Name, Status: s.status})
		}
	}
	if len(doomed) == 0 {
		return nil
	}
	return r.confirmNames(r.yes, doomed)
}

// awaitStep waits for the agent of a step.
func (r *application) awaitStep(ctx context.Context, s *step) error {
	if s.State == stateFailed {
		return nil
	}
	var err error
	if s.Action == actionDelete {
		err = r.api.WaitUntilDeleted(ctx, s.ID, nil)
	} else {
		var last *client.Agent
		if last, err = r.api.WaitUntilReady(ctx, s.ID, nil); err == nil {
			s.status = last.Status
			r.note("%s is %s", last.Name, statusText(last))
			err = waitFailure(last, "")
		}
	}
	if err != nil {
		s.State, s.Error = stateFailed, err.Error()
	}
	return err
}

func nameOf(spec *manifest.Agent) string {
	if spec.Name != nil {
		return *spec.Name
	}
	return spec.Key
}

func (s *step) differs() bool { return s.Action != actionKeep }
