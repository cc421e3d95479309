package agentctl

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// eventsCommand is the family of commands for events.
func (t *tool) eventsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "events", Aliases: []string{"event"}, Short: "List and follow the organization's events",
		Long: "List and follow the organization's events: what became of agents, secrets, API keys and the plan. " +
			"Events are kept for 30 days. The id of an event is the cursor after it.",
	}
	c.AddCommand(t.listEvents(), t.followEvents())
	return c
}

// eventFilter has the flags that choose events.
type eventFilter struct{ agent, typ string }

func (f *eventFilter) define(t *tool, c *cobra.Command) {
	c.Flags().StringVar(&f.agent, "agent", "", "only events about this `AGENT`: a name, or an id, also of a deleted agent")
	c.Flags().StringVar(&f.typ, "type", "", "only events of this type, such as agent.error")
	completeWith(c, "type", eventTypes()...)
	// An error means that the command has no such flag; its definition is above.
	_ = c.RegisterFlagCompletionFunc("agent", func(cmd *cobra.Command, _ []string, prefix string) (
		[]cobra.Completion, cobra.ShellCompDirective,
	) {
		return t.completeAgents(cmd, nil, prefix)
	})
}

// agentID returns the id of the agent that the filter names. An agent with an id need not exist anymore.
func (f *eventFilter) agentID(ctx context.Context, t *tool, api *client.Client) (string, error) {
	if f.agent == "" || uuid.Validate(f.agent) == nil {
		return f.agent, nil
	}
	a, err := t.agent(ctx, api, f.agent)
	if err != nil {
		return "", err
	}
	return a.ID, nil
}

// eventTypes are the types of events that the API has.
func eventTypes() []string {
	return []string{
		"agent.created", "agent.updated", "agent.pending", "agent.provisioning", "agent.running", "agent.paused",
		"agent.asleep", "agent.woken", "agent.stopped", "agent.error", "agent.recovered", "agent.deleting",
		"agent.deleted", "agent.stage_changed", "agent.image_updated", "agent.image_reverted", "agent.restored",
		"agent.moved", "agent.move_failed",
		"snapshot.ready", "snapshot.failed", "snapshot.deleted", "schedule.called", "egress.refused",
		"secret_operation.stored", "secret_operation.succeeded", "secret_operation.failed",
		"secret_operation.canceled", "secret_operation.superseded", "credentials.rotated", "api_key.created",
		"api_key.revoked", "organization.active", "organization.plan_changed", "organization.past_due",
		"organization.suspended", "webhook.disabled", "webhook.test",
	}
}

// newestEvents is how many events the API returns at most if it gets no cursor.
const newestEvents = 100

func (t *tool) listEvents() *cobra.Command {
	var filter eventFilter
	var cursor string
	limit := 50
	c := &cobra.Command{
		Use: "list", Short: "List events, oldest first", Args: cobra.NoArgs,
		Long: "List the newest events, or those after a cursor, oldest first.",
		Example: "  agentctl events list --agent my-agent --type agent.error\n" +
			"  agentctl events list --cursor \"$LAST_EVENT_ID\" --limit 0 -o json | jq -r '.[].type'",
		Annotations: sends("ListEvents"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case limit < 0:
				return usagef("--limit must be 0 or more")
			case cursor == "" && (limit == 0 || limit > newestEvents):
				return usagef("--limit must be from 1 to %d without --cursor", newestEvents)
			}
			api, err := t.client()
			if err != nil {
				return err
			}
			agentID, err := filter.agentID(cmd.Context(), t, api)
			if err != nil {
				return err
			}
			events, more, err := first(api.ListEvents(client.ListEventsParams{
				Cursor: cursor, AgentID: agentID, Type: client.EventType(filter.typ), Limit: pageSize(limit),
			}).All(cmd.Context()), limit)
			if err != nil {
				return err
			}
			err = t.show(list(events, func(e client.Event) string { return e.ID }, eventColumns()))
			if err == nil && more {
				t.next("There are more events. Continue with --cursor %s", events[len(events)-1].ID)
			}
			return err
		},
	}
	filter.define(t, c)
	c.Flags().StringVar(&cursor, "cursor", "", "list the events after the one with this id")
	c.Flags().IntVar(&limit, "limit", limit, "show at most this many events; 0 for all after the cursor")
	return c
}

func eventColumns() []column[client.Event] {
	return []column[client.Event]{
		{"TIME", func(e client.Event) string { return e.CreatedAt.Local().Format(time.DateTime) }},
		{"TYPE", func(e client.Event) string { return string(e.Type) }},
		{"AGENT ID", func(e client.Event) string { return textOr(e.AgentID, "-") }},
		{"DATA", eventData},
		{"ID", func(e client.Event) string { return e.ID }},
	}
}

// eventData shows what an event says, as in status=running.
func eventData(e client.Event) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(e.Data)) {
		text, ok := e.Data[key].(string)
		if !ok {
			encoded, _ := json.Marshal(e.Data[key]) // it was JSON before
			text = string(encoded)
		}
		parts = append(parts, key+"="+text)
	}
	return strings.Join(parts, " ")
}

func (t *tool) followEvents() *cobra.Command {
	var filter eventFilter
	var cursor string
	c := &cobra.Command{
		Use: "follow", Short: "Print events when they happen", Args: cobra.NoArgs,
		Long: "Print each event in one line when it is committed, without losing or repeating one when the " +
			"connection is lost. With -o json, each line is a JSON object. The command runs until Ctrl-C.",
		Example: "  agentctl events follow --agent my-agent\n" +
			"  agentctl events follow --since-cursor \"$LAST_EVENT_ID\" -o json | " +
			"jq -r 'select(.type == \"agent.error\").agent_id'",
		Annotations: sends("StreamEvents"),
		RunE: t.calling(func(ctx context.Context, api *client.Client, _ []string) error {
			agentID, err := filter.agentID(ctx, t, api)
			if err != nil {
				return err
			}
			for e, err := range api.FollowEvents(ctx, client.StreamEventsParams{
				Cursor: cursor, AgentID: agentID, Type: client.EventType(filter.typ),
			}) {
				if err == nil {
					err = t.printItem(e, e.ID, func() string { return eventLine(e) })
				}
				if err != nil {
					return err
				}
			}
			return nil
		}),
	}
	filter.define(t, c)
	c.Flags().StringVar(&cursor, "since-cursor", "", "begin after the event with this id; otherwise with the next one")
	return c
}

// eventLine shows an event in one line.
func eventLine(e client.Event) string {
	parts := []string{e.CreatedAt.Local().Format(time.DateTime), string(e.Type)}
	if e.AgentID != nil {
		parts = append(parts, *e.AgentID)
	}
	if data := eventData(e); data != "" {
		parts = append(parts, data)
	}
	return harmless(strings.Join(append(parts, e.ID), "  "))
}
