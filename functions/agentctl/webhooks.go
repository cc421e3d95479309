package agentctl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// webhooksCommand is the family of commands for webhooks.
func (t *tool) webhooksCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "webhooks", Aliases: []string{"webhook"}, Short: "Create, change and test the organization's webhooks",
		Long: "Create, change and test the organization's webhooks, to which the API sends events. Deliveries are " +
			"signed as Standard Webhooks (https://www.standardwebhooks.com) says.",
	}
	c.AddCommand(t.listWebhooks(), t.createWebhook(), t.getWebhook(), t.updateWebhook(), t.deleteWebhook())
	c.AddCommand(t.rotateWebhookSecret(), t.testWebhook(), t.listDeliveries(), t.redeliver())
	return c
}

// webhookCommand returns a command whose first argument is the id of a webhook.
func (t *tool) webhookCommand(use, short, operationID string, run apiRun) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(strings.Count(use, " ")), Annotations: sends(operationID),
		ValidArgsFunction: t.completeWebhooks,
		RunE:              t.calling(run),
	}
}

// completeWebhooks completes the first argument with the ids of webhooks.
func (t *tool) completeWebhooks(
	cmd *cobra.Command, args []string, _ string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return t.fromAPI(cmd, func(ctx context.Context, api *client.Client) ([]cobra.Completion, error) {
		page, err := api.ListWebhooks(client.ListWebhooksParams{Limit: 100}).Page(ctx)
		if err != nil {
			return nil, err
		}
		var values []cobra.Completion
		for _, w := range page.Items {
			values = append(values, cobra.CompletionWithDesc(w.ID, w.URL))
		}
		return values, nil
	})
}

func (t *tool) listWebhooks() *cobra.Command {
	c := t.webhookCommand("list", "List the webhooks, newest first", "ListWebhooks",
		func(ctx context.Context, api *client.Client, _ []string) error {
			hooks, err := collect(api.ListWebhooks(client.ListWebhooksParams{}).All(ctx))
			if err != nil {
				return err
			}
			return t.show(list(hooks, func(w client.Webhook) string { return w.ID }, []column[client.Webhook]{
				{"ID", func(w client.Webhook) string { return w.ID }},
				{"URL", func(w client.Webhook) string { return w.URL }},
				{"STATUS", func(w client.Webhook) string { return string(w.Status) }},
				{"TYPES", func(w client.Webhook) string { return webhookTypes(w) }},
				{"FAILING SINCE", func(w client.Webhook) string { return t.since(w.FailingSince, "-") }},
				{"DESCRIPTION", func(w client.Webhook) string { return w.Description }},
			}))
		})
	c.Example = "  agentctl webhooks list\n" +
		"  agentctl webhooks list -o json | jq -r '.[] | select(.status == \"disabled\") | .url'"
	c.ValidArgsFunction = nil
	return c
}

// webhookTypes shows the types of the events that a webhook gets.
func webhookTypes(w client.Webhook) string {
	names := make([]string, len(w.Types))
	for i, typ := range w.Types {
		names[i] = string(typ)
	}
	if len(names) == 0 {
		return "all"
	}
	return strings.Join(names, ",")
}

// webhookView shows one webhook.
func (t *tool) webhookView(w *client.Webhook) result {
	fields := []field{
		{"ID", w.ID},
		{"URL", w.URL},
		{"Status", string(w.Status)},
		{"Disabled because", textOr(w.DisabledReason, "")},
		{"Types", webhookTypes(*w)},
		{"Description", w.Description},
	}
	if w.FailingSince != nil {
		fields = append(fields, field{"Failing since", t.moment(*w.FailingSince)})
	}
	return object(w, w.ID, append(fields, field{"Created", t.moment(w.CreatedAt)}))
}

func (t *tool) getWebhook() *cobra.Command {
	c := t.webhookCommand("get WEBHOOK_ID", "Show a webhook", "GetWebhook",
		func(ctx context.Context, api *client.Client, args []string) error {
			w, err := api.GetWebhook(ctx, args[0])
			if err != nil {
				return err
			}
			return t.show(t.webhookView(w))
		})
	c.Example = "  agentctl webhooks get 0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90 -o jsonpath='{.status}'"
	return c
}

func (t *tool) createWebhook() *cobra.Command {
	var types []string
	var description string
	c := t.webhookCommand("create URL", "Create a webhook and print its signing secret once", "CreateWebhook",
		func(ctx context.Context, api *client.Client, args []string) error {
			w, err := newWebhook(ctx, api, client.CreateWebhookRequest{
				URL: args[0], Types: toEventTypes(types), Description: &description,
			})
			if err != nil {
				return err
			}
			return t.showNewWebhook(w)
		})
	c.Long = "Create a webhook for a public https URL. Standard output gets the signing secret and nothing else, so " +
		"that it can be piped to where it is needed. The secret is shown only this once. Receivers give it to a " +
		"library of Standard Webhooks (https://www.standardwebhooks.com), which verifies deliveries."
	c.Example = "  agentctl webhooks create https://hooks.example.com/agents | gh secret set WEBHOOK_SECRET\n" +
		"  agentctl webhooks create https://hooks.example.com/agents --type agent.error --description Incidents"
	c.ValidArgsFunction = cobra.NoFileCompletions
	c.Flags().StringArrayVar(&types, "type", nil, "deliver events of this type; can be repeated; all types by default")
	completeWith(c, "type", eventTypes()...)
	c.Flags().StringVar(&description, "description", "", "a text for people")
	return c
}

func toEventTypes(names []string) []client.EventType {
	types := make([]client.EventType, len(names))
	for i, name := range names {
		types[i] = client.EventType(name)
	}
	return types
}

// newWebhook creates a webhook whose secret is known. When the answer to the first request is lost, its repeat has no
// secret. That webhook is then deleted and another one created.
func newWebhook(
	ctx context.Context, api *client.Client, body client.CreateWebhookRequest,
) (*client.CreatedWebhook, error) {
	for range 3 {
		w, err := api.CreateWebhook(ctx, body)
		if err != nil || w.Secret != nil {
			return w, err
		}
		if err := api.DeleteWebhook(ctx, w.ID); err != nil && !client.IsNotFound(err) {
			return nil, fmt.Errorf("the webhook %s was created, but its secret was lost on the way, and the webhook "+
				"could not be deleted. Run: agentctl webhooks delete %s --yes. Then create another webhook: %w",
				w.ID, w.ID, err)
		}
	}
	return nil, errors.New("the API's answers were lost three times. The webhooks without a known secret are " +
		"deleted. Run the command again when the network is better")
}

// maxKeepFormer is how long the API signs with a former secret at most.
const maxKeepFormer = 24 * time.Hour

func (t *tool) rotateWebhookSecret() *cobra.Command {
	var keep time.Duration
	c := t.webhookCommand("rotate-secret WEBHOOK_ID", "Give a webhook a new signing secret and print it once",
		"RotateWebhookSecret", func(ctx context.Context, api *client.Client, args []string) error {
			if keep < 0 || keep > maxKeepFormer || keep%time.Second != 0 {
				return usagef("--keep-former must be from 0 to 24h, in whole seconds")
			}
			seconds := int64(keep / time.Second)
			body := client.RotateWebhookSecretRequest{KeepFormerSeconds: &seconds}
			for range 3 { // when the answer is lost, its repeat has no secret
				w, err := api.RotateWebhookSecret(ctx, args[0], body)
				if err != nil {
					return err
				}
				if w.Secret == nil {
					continue
				}
				if err := t.show(result{value: w, names: []string{w.ID}, table: textOf(*w.Secret)}); err != nil {
					return fmt.Errorf("the new secret could not be printed, and is not shown again. Run the command "+
						"again: %w", err)
				}
				if t.output.kind == formatName {
					t.note("The new secret was not printed, because -o name prints the id only. It is not shown " +
						"again: run the command without -o name.")
					return nil
				}
				t.note("Give the secret to the receiver now; it is not shown again.")
				if seconds == 0 {
					t.note("No former secret signs anymore: the receiver refuses deliveries until it has the new one.")
					return nil
				}
				t.note("Until %s, deliveries are signed with the former secret, too.", t.moment(w.FormerSecretsUntil))
				return nil
			}
			return errors.New("the API's answers were lost three times. Run the command again when the network is " +
				"better")
		})
	c.Long = "Give a webhook a new signing secret. Standard output gets the secret and nothing else, so that it can " +
		"be piped to where it is needed. The secret is shown only this once. For 24 hours deliveries are signed with " +
		"the former secret, too, so the receiver verifies them before and after it takes the new one. If the command " +
		"runs more often, up to three former secrets sign, each for 24 hours. If a secret is known to others, end " +
		"all former ones with --keep-former 0: the receiver refuses deliveries until it has the new one. What it " +
		"refuses is repeated for 33 hours."
	c.Flags().DurationVar(&keep, "keep-former", maxKeepFormer,
		"sign with the former secret, too, for this time, such as 1h; 0 ends it now")
	c.Example = "  agentctl webhooks rotate-secret 0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90 | gh secret set WEBHOOK_SECRET"
	return c
}

// showNewWebhook prints a webhook with its secret.
func (t *tool) showNewWebhook(w *client.CreatedWebhook) error {
	err := t.show(result{value: w, names: []string{w.ID}, table: textOf(*w.Secret)})
	if err != nil {
		return fmt.Errorf("the webhook %s was created, but could not be printed. Run: agentctl webhooks delete %s "+
			"--yes: %w", w.ID, w.ID, err)
	}
	switch t.output.kind {
	case formatTable:
		t.note("Created the webhook %s. Store the secret now; it is not shown again.\n"+
			"Verify deliveries with it and a library of Standard Webhooks: https://www.standardwebhooks.com\n"+
			"Send a test event: agentctl webhooks test %s", w.ID, w.ID)
	case formatName:
		t.note("The webhook's secret was not printed, because -o name prints the id only. It is not shown again.")
	}
	return nil
}

func (t *tool) updateWebhook() *cobra.Command {
	var types []string
	var address, description string
	var enabled, allTypes bool
	var c *cobra.Command
	c = t.webhookCommand("update WEBHOOK_ID", "Change a webhook", "UpdateWebhook",
		func(ctx context.Context, api *client.Client, args []string) error {
			var body client.UpdateWebhookRequest
			changed := c.Flags().Changed
			if allTypes || len(types) > 0 {
				chosen := toEventTypes(types) // an empty list stands for all types
				body.Types = &chosen
			}
			if changed("url") {
				body.URL = &address
			}
			if changed("description") {
				body.Description = &description
			}
			if changed("enabled") {
				body.Enabled = &enabled
			}
			if body == (client.UpdateWebhookRequest{}) {
				return usagef("nothing to change: use --url, --type, --all-types, --description or --enabled")
			}
			w, err := api.UpdateWebhook(ctx, args[0], body)
			if err != nil {
				return err
			}
			return t.show(t.webhookView(w))
		})
	c.Long = "Change a webhook. A webhook that is enabled again continues with the first event that was not " +
		"delivered, as far as events are kept: 30 days."
	c.Example = "  agentctl webhooks update 0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90 --enabled\n" +
		"  agentctl webhooks update 0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90 --type agent.error --type agent.recovered"
	c.Flags().StringVar(&address, "url", "", "send events to this https `URL`")
	c.Flags().StringArrayVar(&types, "type", nil, "deliver only events of this type; can be repeated")
	c.Flags().BoolVar(&allTypes, "all-types", false, "deliver events of all types")
	c.MarkFlagsMutuallyExclusive("type", "all-types")
	completeWith(c, "type", eventTypes()...)
	c.Flags().StringVar(&description, "description", "", "a text for people")
	c.Flags().BoolVar(&enabled, "enabled", false, "send events; --enabled=false stops that")
	return c
}

func (t *tool) deleteWebhook() *cobra.Command {
	var yes bool
	c := t.webhookCommand("delete WEBHOOK_ID", "Delete a webhook", "DeleteWebhook",
		func(ctx context.Context, api *client.Client, args []string) error {
			if err := t.confirm(yes, "Delete the webhook %s?", args[0]); err != nil {
				return err
			}
			if err := api.DeleteWebhook(ctx, args[0]); err != nil {
				return err
			}
			t.note("Deleted the webhook %s.", args[0])
			return nil
		})
	c.Example = "  agentctl webhooks delete 0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90 --yes"
	c.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return c
}

func (t *tool) testWebhook() *cobra.Command {
	c := t.webhookCommand("test WEBHOOK_ID", "Send a test event to a webhook", "TestWebhook",
		func(ctx context.Context, api *client.Client, args []string) error {
			d, err := api.TestWebhook(ctx, args[0])
			return t.showDelivery(d, err)
		})
	c.Example = "  agentctl webhooks test 0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90"
	return c
}

func (t *tool) redeliver() *cobra.Command {
	c := t.webhookCommand("redeliver WEBHOOK_ID DELIVERY_ID", "Repeat a delivery", "RedeliverWebhookDelivery",
		func(ctx context.Context, api *client.Client, args []string) error {
			d, err := api.RedeliverWebhookDelivery(ctx, args[0], args[1])
			return t.showDelivery(d, err)
		})
	c.Example = "  agentctl webhooks redeliver \"$WEBHOOK_ID\" \"$DELIVERY_ID\""
	return c
}

// showDelivery shows a delivery that a worker has yet to send, or the error of its request.
func (t *tool) showDelivery(d *client.WebhookDelivery, err error) error {
	if err != nil {
		return err
	}
	if err := t.show(list([]client.WebhookDelivery{*d}, deliveryID, t.deliveryColumns())); err != nil {
		return err
	}
	t.next("See how it ends: agentctl webhooks deliveries %s", d.WebhookID)
	return nil
}

func deliveryID(d client.WebhookDelivery) string { return d.ID }

func (t *tool) deliveryColumns() []column[client.WebhookDelivery] {
	return []column[client.WebhookDelivery]{
		{"ID", deliveryID},
		{"EVENT TYPE", func(d client.WebhookDelivery) string { return string(d.EventType) }},
		{"STATUS", func(d client.WebhookDelivery) string { return string(d.Status) }},
		{"CREATED", func(d client.WebhookDelivery) string { return t.since(&d.CreatedAt, "") }},
		{"ATTEMPTS", func(d client.WebhookDelivery) string { return fmt.Sprint(len(d.Attempts)) }},
		{"LAST ANSWER", lastAnswer},
		{"EVENT ID", func(d client.WebhookDelivery) string { return d.EventID }},
	}
}

// lastAnswer shows how the latest attempt of a delivery ended.
func lastAnswer(d client.WebhookDelivery) string {
	if len(d.Attempts) == 0 {
		return "-"
	}
	last := d.Attempts[len(d.Attempts)-1]
	if last.HTTPStatus != nil {
		return fmt.Sprint(*last.HTTPStatus)
	}
	return textOr(last.Error, "-")
}

func (t *tool) listDeliveries() *cobra.Command {
	limit := 50
	c := t.webhookCommand("deliveries WEBHOOK_ID", "List the deliveries of a webhook, newest first",
		"ListWebhookDeliveries", func(ctx context.Context, api *client.Client, args []string) error {
			if limit < 0 {
				return usagef("--limit must be 0 or more")
			}
			params := client.ListWebhookDeliveriesParams{Limit: pageSize(limit)}
			found, more, err := first(api.ListWebhookDeliveries(args[0], params).All(ctx), limit)
			if err != nil {
				return err
			}
			err = t.show(list(found, deliveryID, t.deliveryColumns()))
			if err == nil && more {
				t.next("There are more deliveries. Use --limit 0 for all of them.")
			}
			return err
		})
	c.Example = "  agentctl webhooks deliveries 0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90 --limit 10"
	c.Flags().IntVar(&limit, "limit", limit, "show at most this many deliveries; 0 for all")
	return c
}
