package agentctl

import (
	"context"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

func (t *tool) agentLogs() *cobra.Command {
	var params client.GetAgentLogsParams
	var follow, timestamps bool
	c := t.agentCommand("logs", "Print an agent's log", "GetAgentLogs",
		func(ctx context.Context, api *client.Client, a *client.Agent) error {
			if t.output.kind == formatName {
				return usagef("lines of a log have no names: use another --output")
			}
			lines := api.GetAgentLogs(ctx, a.ID, params)
			if follow {
				lines = api.FollowAgentLogs(ctx, a.ID, params)
			}
			for line, err := range lines {
				if err != nil {
					return err
				}
				if err := t.printItem(line, "", func() string { return t.lineText(line, timestamps) }); err != nil {
					return err
				}
				if line.Truncated != nil && *line.Truncated && line.Time != nil {
					t.note("The answer is full. For the rest: agentctl agents logs %s --since %s", a.ID,
						line.Time.UTC().Format(time.RFC3339Nano))
				}
			}
			return nil
		})
	c.Long = "Print an agent's log. With -o json, each line is a JSON object. On a terminal, control characters are " +
		"made visible; elsewhere the lines are as the agent wrote them."
	c.Example = "  agentctl agents logs my-agent --follow\n" +
		"  agentctl agents logs my-agent --previous --tail 50\n" +
		"  agentctl agents logs my-agent --since 10m -o json | jq -r 'select(.message | test(\"error\")) | .time'"
	c.Flags().BoolVarP(&follow, "follow", "f", false, "print further lines as the agent writes them")
	c.Flags().Int64Var(&params.Tail, "tail", 0, "print at most this many lines from the end (default 200)")
	c.Flags().StringVar(&params.Since, "since", "", "print lines since a `time` such as 10m or 2026-01-31T12:00:00Z")
	c.Flags().BoolVar(&params.Previous, "previous", false, "print the log of the container before the last restart")
	c.Flags().BoolVar(&timestamps, "timestamps", false, "begin each line with its time")
	c.MarkFlagsMutuallyExclusive("follow", "previous")
	return c
}

// lineText shows one line of a log.
func (t *tool) lineText(line client.AgentLogLine, timestamps bool) string {
	text := line.Message
	if t.app.Terminal.Out {
		text = harmless(regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(text, ""))
	}
	if timestamps {
		at := "-"
		if line.Time != nil {
			at = line.Time.UTC().Format(time.RFC3339Nano)
		}
		text = at + " " + text
	}
	return text
}
