package agentctl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// keysCommand is the family of commands for API keys.
func (t *tool) keysCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "keys", Aliases: []string{"key", "api-keys"}, Short: "List, create and revoke the organization's API keys",
	}
	c.AddCommand(t.listKeys(), t.createKey(), t.revokeKey())
	return c
}

func (t *tool) listKeys() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the API keys, newest first", Args: cobra.NoArgs,
		Long: "List the organization's API keys. Their secrets are not stored, so they cannot be shown.",
		Example: "  agentctl keys list\n" +
			"  agentctl keys list -o json | jq -r '.[] | select(.last_used_at == null) | .name'",
		Annotations: sends("ListAPIKeys"),
		RunE: t.calling(func(ctx context.Context, api *client.Client, _ []string) error {
			keys, err := collect(api.ListAPIKeys(client.ListAPIKeysParams{}).All(ctx))
			if err != nil {
				return err
			}
			return t.show(list(keys, func(k client.APIKey) string { return k.ID }, []column[client.APIKey]{
				{"ID", func(k client.APIKey) string { return k.ID }},
				{"NAME", func(k client.APIKey) string { return k.Name }},
				{"PREFIX", func(k client.APIKey) string { return k.KeyPrefix }},
				{"PURPOSE", func(k client.APIKey) string { return string(k.Purpose) }},
				{"ROLE", func(k client.APIKey) string { return string(k.Role) }},
				{"CREATED", func(k client.APIKey) string { return t.since(&k.CreatedAt, "") }},
				{"LAST USED", func(k client.APIKey) string { return t.since(k.LastUsedAt, "never") }},
				{"EXPIRES", func(k client.APIKey) string { return day(k.ExpiresAt, "never") }},
			}))
		}),
	}
}

func (t *tool) createKey() *cobra.Command {
	var body client.CreateAPIKeyRequest
	var purpose, role string
	var days int64
	c := &cobra.Command{
		Use: "create NAME", Short: "Create an API key and print its secret once", Args: cobra.ExactArgs(1),
		Long: "Create an API key. Standard output gets the secret and nothing else, so that it can be piped to where " +
			"it is needed. The secret is shown only this once. A key that is created with an API key expires with " +
			"that key at the latest.",
		Example: "  agentctl keys create deploy --purpose ci --expires-in-days 90 | gh secret set AGENTS_API_KEY\n" +
			"  agentctl keys create status-page --role member\n" +
			"  agentctl keys create laptop -o json | jq -r .secret",
		Annotations: sends("CreateAPIKey"),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := t.client()
			if err != nil {
				return err
			}
			body.Name = args[0]
			if purpose != "" {
				body.Purpose = new(client.APIKeyPurpose(purpose))
			}
			if role != "" {
				body.Role = new(client.Role(role))
			}
			if cmd.Flags().Changed("expires-in-days") {
				body.ExpiresInDays = &days
			}
			k, err := newKey(cmd.Context(), api, body)
			if err != nil {
				return err
			}
			return t.showNewKey(k)
		},
	}
	c.Flags().StringVar(&purpose, "purpose", "", "what the key is for: script, ci, sdk, mcp, playground or other")
	c.Flags().Int64Var(&days, "expires-in-days", 0, "revoke the key after this many days, 1 to 365; otherwise never")
	completeWith(c, "purpose", "script", "ci", "sdk", "mcp", "playground", "other")
	c.Flags().StringVar(&role, "role", "", "what the key may do: admin, everything; or member, only read")
	completeWith(c, "role", "admin", "member")
	return c
}

// newKey creates a key whose secret is known. When the answer to the first request is lost, its repeat has no secret.
// That key is then revoked and another one created.
func newKey(
	ctx context.Context, api *client.Client, body client.CreateAPIKeyRequest,
) (*client.CreatedAPIKey, error) {
	for range 3 {
		k, err := api.CreateAPIKey(ctx, body)
		if err != nil {
			return nil, err
		}
		if k.Secret != nil {
			return k, nil
		}
		if err := api.RevokeAPIKey(ctx, k.ID, client.RevokeAPIKeyParams{}); err != nil && !client.IsNotFound(err) {
			return nil, fmt.Errorf("the key %s was created, but its secret was lost on the way, and the key could not "+
				"be revoked. Run: agentctl keys revoke %s --yes. Then create another key: %w", k.ID, k.ID, err)
		}
	}
	return nil, errors.New("the API's answers were lost three times. The keys without a known secret are revoked. " +
		"Run the command again when the network is better")
}

// showNewKey prints a key with its secret.
func (t *tool) showNewKey(k *client.CreatedAPIKey) error {
	err := t.show(result{value: k, names: []string{k.ID}, table: textOf(*k.Secret)})
	if err != nil {
		return fmt.Errorf("the key %s was created, but could not be printed. Run: agentctl keys revoke %s --yes: %w",
			k.ID, k.ID, err)
	}
	switch t.output.kind {
	case formatTable:
		t.note("Created the %s key %s (%s), which expires: %s. Store the secret now; it is not shown again.\n"+
			"Programs find it in AGENTS_API_KEY. To try it: AGENTS_API_KEY=... agentctl whoami",
			k.Role, k.Name, k.ID, day(k.ExpiresAt, "never"))
	case formatName:
		t.note("The key's secret was not printed, because -o name prints the id only. It is not shown again.")
	}
	return nil
}

func (t *tool) revokeKey() *cobra.Command {
	var params client.RevokeAPIKeyParams
	var yes bool
	c := &cobra.Command{
		Use: "revoke KEY_ID...", Short: "Revoke API keys", Args: cobra.MinimumNArgs(1),
		Long: "Revoke API keys. Every request that begins after the command is refused. With --descendants, also " +
			"the keys that were created with this key, with those keys, and so on; the key itself may already be " +
			"revoked. A key that cannot be revoked does not stop the others.",
		Example:     "  agentctl keys revoke 0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90 --descendants --yes",
		Annotations: sends("RevokeAPIKey"),
		RunE: t.calling(func(ctx context.Context, api *client.Client, args []string) error {
			if err := t.confirm(yes, "Revoke %s?", revoked(args, params.Descendants)); err != nil {
				return err
			}
			var failed []failedObject
			for _, id := range args {
				err := api.RevokeAPIKey(ctx, id, params)
				if err != nil && len(args) == 1 {
					return err
				} else if err != nil {
					failed = append(failed, failedObject{id, err})
					continue
				}
				t.note("Revoked %s.", revoked([]string{id}, params.Descendants))
			}
			return severally(failed, len(args), "keys")
		}),
	}
	c.Flags().BoolVar(&params.Descendants, "descendants", false, "also revoke the keys that were created with this key")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return c
}

// revoked says which keys a command revokes.
func revoked(ids []string, descendants bool) string {
	what, created := "the key "+ids[0], "it"
	if len(ids) > 1 {
		what, created = fmt.Sprintf("the %d keys %s", len(ids), strings.Join(ids, ", ")), "them"
	}
	if descendants {
		what += " and every key that was created with " + created
	}
	return what
}
