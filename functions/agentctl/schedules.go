package agentctl

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// schedulesCommand is the family of commands for the schedules of agents.
func (t *tool) schedulesCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "schedules", Aliases: []string{"schedule"}, Short: "Set when agents are called and woken",
		Long: "Set when agents are called and woken. A schedule sends a POST to a path of its agent at certain " +
			"times, and wakes the agent first if it sleeps.",
	}
	c.AddCommand(t.listSchedules(), t.setSchedule(), t.removeSchedule(), t.wakeAt())
	return c
}

func (t *tool) listSchedules() *cobra.Command {
	c := t.agentCommand("list", "List the schedules of an agent", "GetAgent",
		func(_ context.Context, _ *client.Client, a *client.Agent) error { return t.showSchedules(a) })
	c.Example = "  agentctl schedules list my-agent\n" +
		"  agentctl schedules list my-agent -o json | jq '.[] | select(.last.status >= 400)'"
	return c
}

func (t *tool) showSchedules(a *client.Agent) error {
	type schedule = client.AgentSchedule
	return t.show(list(a.Schedules, func(s schedule) string { return s.ID }, []column[schedule]{
		{"ID", func(s schedule) string { return s.ID }},
		{"CRON", func(s schedule) string { return s.Cron }},
		{"TIMEZONE", func(s schedule) string { return s.Timezone }},
		{"PATH", func(s schedule) string { return s.Path }},
		{"MISSED", func(s schedule) string { return string(s.Missed) }},
		{"NEXT", func(s schedule) string {
			if !s.Enabled {
				return "disabled"
			}
			return t.momentOr(s.NextAt, "-")
		}},
		{"LAST", func(s schedule) string { return t.lastCall(s.Last) }},
		{"SKIPPED", func(s schedule) string { return fmt.Sprint(s.Skipped) }},
	}))
}

// lastCall shows the latest call of a schedule.
func (t *tool) lastCall(c *client.AgentCall) string {
	if c == nil {
		return "-"
	}
	text := string(c.Outcome)
	if c.Status != nil {
		text = fmt.Sprint(*c.Status)
	}
	if c.DurationMs != nil {
		text += " in " + elapsed(time.Duration(*c.DurationMs)*time.Millisecond)
	}
	return text + ", " + t.age(c.DueAt) + " ago"
}

// changeSchedules changes the list of an agent's schedules. It fails if the agent changes in between.
func (t *tool) changeSchedules(cmd *cobra.Command, args []string, change *changeFlags,
	apply func([]client.AgentScheduleSpec) ([]client.AgentScheduleSpec, error),
) error {
	api, a, err := t.clientAndAgent(cmd.Context(), args[0])
	if err != nil {
		return err
	}
	a, err = change.modify(cmd.Context(), api, a.ID, func(a *client.Agent) (client.UpdateAgentRequest, error) {
		specs, err := apply(scheduleSpecs(a))
		return client.UpdateAgentRequest{Schedules: &specs}, err
	})
	if err != nil {
		return err
	}
	if change.dryRun.on {
		return t.showRehearsal(&change.dryRun.answer)
	}
	return t.showSchedules(a)
}

// scheduleSpecs returns the schedules of an agent as a request has them.
func scheduleSpecs(a *client.Agent) []client.AgentScheduleSpec {
	specs := make([]client.AgentScheduleSpec, len(a.Schedules))
	for i, s := range a.Schedules {
		specs[i] = client.AgentScheduleSpec{
			ID: s.ID, Cron: s.Cron, Timezone: &s.Timezone, Path: s.Path, Body: s.Body, Missed: &s.Missed,
			Enabled: &s.Enabled,
		}
	}
	return specs
}

func (t *tool) setSchedule() *cobra.Command {
	var change changeFlags
	var cron, timezone, path, body, missed string
	var disable bool
	c := &cobra.Command{
		Use: "set AGENT SCHEDULE", Short: "Add or change a schedule of an agent", Args: cobra.ExactArgs(2),
		Long: "Add a schedule to an agent, or change the one with this id. What has no flag stays as it is.",
		Example: "  agentctl schedules set my-agent daily-report --cron '30 9 * * MON-FRI' --timezone Europe/Berlin " +
			"--path /v1/chat/completions --body @prompt.json\n" +
			"  agentctl schedules set my-agent daily-report --disabled",
		Annotations: sends("UpdateAgent"), ValidArgsFunction: t.completeAgents,
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if local, isLocal := strings.CutPrefix(body, "@"); isLocal {
			content, err := t.readText(local)
			if err != nil {
				return err
			}
			body = content
		}
		return t.changeSchedules(cmd, args, &change, func(specs []client.AgentScheduleSpec) (
			[]client.AgentScheduleSpec, error,
		) {
			i := slices.IndexFunc(specs, func(s client.AgentScheduleSpec) bool { return s.ID == args[1] })
			if i < 0 {
				if cron == "" || path == "" {
					return nil, usagef("a new schedule needs --cron and --path")
				}
				specs, i = append(specs, client.AgentScheduleSpec{ID: args[1]}), len(specs)
			}
			s, given := &specs[i], cmd.Flags().Changed
			for flag, set := range map[string]func(){
				"cron":     func() { s.Cron = cron },
				"timezone": func() { s.Timezone = &timezone },
				"path":     func() { s.Path = path },
				"body":     func() { s.Body = &body },
				"missed":   func() { s.Missed = (*client.AgentMissedPolicy)(&missed) },
				"disabled": func() { s.Enabled = new(!disable) },
			} {
				if given(flag) {
					set()
				}
			}
			return specs, nil
		})
	}
	c.Flags().StringVar(&cron, "cron", "", "the `TIMES` of the calls: minute, hour, day of month, month and day of week")
	c.Flags().StringVar(&timezone, "timezone", "UTC", "the time `ZONE` of --cron, such as Europe/Berlin")
	c.Flags().StringVar(&path, "path", "", "the `PATH` of the agent that gets a POST")
	c.Flags().StringVar(&body, "body", "", "the `TEXT` that is sent, @FILE with that of a file, or @- with that of "+
		"standard input")
	c.Flags().StringVar(&missed, "missed", "skip",
		"what becomes of times at which the agent could not be called: `skip` or run_once")
	c.Flags().BoolVar(&disable, "disabled", false, "keep the schedule without calls; --disabled=false ends that")
	change.add(c, "", true)
	completeWith(c, "missed", "skip", "run_once")
	return c
}

func (t *tool) removeSchedule() *cobra.Command {
	var change changeFlags
	c := &cobra.Command{
		Use: "remove AGENT SCHEDULE...", Short: "Remove schedules from an agent", Args: cobra.MinimumNArgs(2),
		Long:        "Remove schedules from an agent: all that are named, or none if the agent lacks one of them.",
		Example:     "  agentctl schedules remove my-agent daily-report weekly-report",
		Annotations: sends("UpdateAgent"), ValidArgsFunction: t.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.changeSchedules(cmd, args, &change, func(specs []client.AgentScheduleSpec) (
				[]client.AgentScheduleSpec, error,
			) {
				for _, id := range args[1:] {
					if !slices.ContainsFunc(specs, func(s client.AgentScheduleSpec) bool { return s.ID == id }) {
						return nil, usagef("the agent has no schedule %s", id)
					}
				}
				return slices.DeleteFunc(specs,
					func(s client.AgentScheduleSpec) bool { return slices.Contains(args[1:], s.ID) }), nil
			})
		},
	}
	change.add(c, "", true)
	return c
}

func (t *tool) wakeAt() *cobra.Command {
	var change changeFlags
	c := &cobra.Command{
		Use: "wake-at AGENT TIME", Short: "Set one time at which an agent is woken if it sleeps",
		Args: cobra.ExactArgs(2),
		Long: "Set one time at which an agent is woken if it sleeps. TIME is one of RFC 3339, a duration from now " +
			"such as 90m, or never. A time is refused if the agent's --wake-on lacks schedule.",
		Example: "  agentctl schedules wake-at my-agent 2026-03-02T09:30:00Z\n" +
			"  agentctl schedules wake-at my-agent never",
		Annotations: sends("WakeAgentAt"), ValidArgsFunction: t.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			var body client.WakeAgentAtRequest
			if args[1] != "never" {
				at, err := time.Parse(time.RFC3339, args[1])
				if in, wrong := time.ParseDuration(args[1]); wrong == nil {
					at, err = t.app.Now().Add(in), nil
				}
				if err != nil {
					return usagef("want a time such as 2026-03-02T09:30:00Z, a duration such as 90m, or never")
				}
				body.At = &at
			}
			return t.forAgent(func(ctx context.Context, api *client.Client, a *client.Agent) error {
				a, err := api.WakeAgentAt(ctx, a.ID, body, change.options()...)
				if err != nil {
					return err
				}
				return t.finish(ctx, api, a, &change, "")
			})(cmd, args)
		},
	}
	change.add(c, "", true)
	return c
}
