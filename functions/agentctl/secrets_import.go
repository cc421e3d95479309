package agentctl

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// Limits of one request and of a file. The API takes bodies of 512 KiB; the rest is for the frame.
const (
	batchKeys  = 20
	batchBytes = 500 << 10
	maxEnvFile = 8 << 20
)

func (t *tool) importSecrets() *cobra.Command {
	var wait bool
	var dryRun rehearsalFlag
	c := &cobra.Command{
		Use: "import AGENT FILE", Short: "Set the secrets in a .env file", Args: cobra.ExactArgs(2),
		Long: "Set every variable of a .env file as a secret of an agent; - reads standard input. Lines look like " +
			"KEY=value, with an optional export and comments. Values in quotes may go over several lines; in double " +
			"quotes, \\n and other escapes count. References such as $HOME stay as they are. Secrets that the file " +
			"does not name stay. The whole file is checked before the first value is sent. No value is shown.",
		Example: "  agentctl secrets import my-agent .env.production --wait\n" +
			"  sops -d secrets.env | agentctl secrets import my-agent -",
		Annotations: sends("PutSecrets"), ValidArgsFunction: t.completeImport,
		RunE: func(cmd *cobra.Command, args []string) error {
			entries, err := t.readEnvFile(args[1])
			if err != nil {
				return err
			}
			api, a, err := t.clientAndAgent(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := t.keepInjected(cmd.Context(), api, a, entries); err != nil {
				return err
			}
			if dryRun.on {
				return t.rehearseAll(cmd.Context(), api, a.ID, entries)
			}
			changes, err := t.putAll(cmd.Context(), api, a.ID, entries)
			if err != nil {
				return err
			}
			return t.followChanges(cmd.Context(), api, changes, wait)
		},
	}
	waitFlag(c, &wait)
	dryRun.add(c)
	return c
}

// completeImport completes the agent, and then the name of a file.
func (t *tool) completeImport(
	cmd *cobra.Command, args []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return t.completeAgents(cmd, args, typed)
}

// readEnvFile reads and checks a .env file.
func (t *tool) readEnvFile(name string) ([]envEntry, error) {
	var text string
	var err error
	if name == "-" {
		text, err = readAll(t.stdin, maxEnvFile)
	} else {
		text, err = readFile(name, maxEnvFile)
	}
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxEnvFile:
		return nil, invalidf("the file is larger than %s", bytesText(maxEnvFile))
	case !utf8.ValidString(text):
		return nil, invalidf("the file is not text in UTF-8")
	}
	f := readEnv(text)
	for _, e := range f.entries {
		if why := checkValue(e.value); why != "" {
			f.problems = append(f.problems, fmt.Sprintf("line %d: %s: %s", e.line, e.key, why))
		}
	}
	if len(f.problems) > 0 {
		return nil, invalidf("nothing was sent, because the file has problems:\n  %s", strings.Join(f.problems, "\n  "))
	}
	if len(f.entries) == 0 {
		return nil, invalidf("the file has no variables")
	}
	return f.entries, nil
}

// putAll sets secrets, and removes those without a value, with as few requests as the API's limits allow.
func (t *tool) putAll(
	ctx context.Context, api *client.Client, agentID string, entries []envEntry,
) (*client.SecretChanges, error) {
	all := &client.SecretChanges{AgentID: agentID, Operations: []client.SecretOperation{}}
	for done := 0; done < len(entries); {
		batch := nextBatch(entries[done:])
		changes, err := api.PutSecrets(ctx, agentID, putRequest(batch))
		if err != nil {
			return nil, partial(err, entries, done)
		}
		done += len(batch)
		all.DashboardWarming = changes.DashboardWarming
		all.Operations = append(all.Operations, changes.Operations...)
		if len(batch) < len(entries) {
			t.note("%d of %d keys are accepted.", done, len(entries))
		}
	}
	return all, nil
}

// putRequest returns the request that sets secrets, and removes those without a value.
func putRequest(batch []envEntry) client.PutSecretsRequest {
	body := client.PutSecretsRequest{Secrets: map[string]*string{}}
	for _, e := range batch {
		body.Secrets[e.key] = nil
		if e.value != "" {
			body.Secrets[e.key] = &e.value
		}
		if e.inject != nil {
			if body.Inject == nil {
				body.Inject = map[string]client.SecretInject{}
			}
			body.Inject[e.key] = *e.inject
		}
	}
	return body
}

// rehearseAll shows what putAll would do. It rehearses each of its requests against the agent's present state, so it
// does not count the keys of the requests before.
func (t *tool) rehearseAll(ctx context.Context, api *client.Client, agentID string, entries []envEntry) error {
	var all client.Rehearsal
	for done := 0; done < len(entries); {
		batch := nextBatch(entries[done:])
		var one client.Rehearsal
		if _, err := api.PutSecrets(ctx, agentID, putRequest(batch), client.DryRun(&one)); err != nil {
			return err
		}
		if done == 0 || one.Would.Restarts {
			all = one
		}
		done += len(batch)
	}
	return t.showRehearsal(&all)
}

// nextBatch returns the entries that fit into the next request.
func nextBatch(entries []envEntry) []envEntry {
	size := 0
	for i, e := range entries {
		value, _ := json.Marshal(e.value) // a text can always be encoded
		if size += len(e.key) + len(value) + 4; i == batchKeys || size > batchBytes && i > 0 {
			return entries[:i]
		}
	}
	return entries
}

// partial says which keys were not sent when the request after the first done ones failed.
func partial(err error, entries []envEntry, done int) error {
	if done == 0 {
		return err
	}
	var keys []string
	for _, e := range entries[done:] {
		keys = append(keys, e.key)
	}
	return withNext(err, fmt.Sprintf("The first %d keys are set. Not set: %s. Run the command again after the repair.",
		done, strings.Join(keys, ", ")))
}
