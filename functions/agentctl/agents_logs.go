package agentctl

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

func (t *tool) agentLogs() *cobra.Command {
	var params client.GetAgentLogsParams
	var follow, timestamps bool
	var c *cobra.Command
	c = t.agentCommand("logs", "Print an agent's log", "GetAgentLogs",
		func(ctx context.Context, api *client.Client, a *client.Agent) error {
			if t.output.kind == formatName {
				return usagef("lines of a log have no names: use another --output")
			}
			if params.Tail == 0 && c.Flags().Changed("tail") {
				if !follow {
					return nil
				}
				params.Since = "1ns" // the API takes 0 for its default
			}
			lines := api.GetAgentLogs(ctx, a.ID, params)
			if follow {
				lines = api.FollowAgentLogs(ctx, a.ID, params)
			}
			for line, err := range lines {
				if err != nil {
					return err
				}
				if e := line.Ended; e != nil {
					t.note("The container ended at %s with exit code %d (%s).", e.EndedAt.UTC().Format(time.RFC3339),
						e.ExitCode, e.Reason)
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
		"made visible; elsewhere the lines are as the agent wrote them. The last 64 KiB of 5 containers that have " +
		"ended are kept for 7 days, also of an agent that is stopped."
	c.Example = "  agentctl agents logs my-agent --follow\n" +
		"  agentctl agents logs my-agent --previous --tail 50\n" +
		"  agentctl agents logs my-agent --previous=3\n" +
		"  agentctl agents logs my-agent --since 10m -o json | jq -r 'select(.message | test(\"error\")) | .time'"
	c.Flags().BoolVarP(&follow, "follow", "f", false, "print further lines as the agent writes them")
	c.Flags().Int64Var(&params.Tail, "tail", 0, "print at most this many lines from the end (default 200); 0 is none")
	c.Flags().StringVar(&params.Since, "since", "", "print lines since a `time` such as 10m or 2026-01-31T12:00:00Z")
	previous := (*endedRun)(&params.Ended)
	c.Flags().Var(previous, "previous", "print the log of the container before the last restart, or with --previous=`N` of "+
		"the one that ended as the Nth before now, up to 5")
	c.Flags().Lookup("previous").NoOptDefVal = "1"
	c.Flags().BoolVar(&timestamps, "timestamps", false, "begin each line with its time")
	c.MarkFlagsMutuallyExclusive("follow", "previous")
	return c
}

// endedRun is the value of --previous: a number of a container that has ended, or true for the last one.
type endedRun int64

// String implements pflag.Value.
func (n *endedRun) String() string { return strconv.FormatInt(int64(*n), 10) }

// Type implements pflag.Value.
func (*endedRun) Type() string { return "int" }

// Set implements pflag.Value.
func (n *endedRun) Set(text string) error {
	number, err := strconv.ParseInt(text, 10, 64)
	switch {
	case text == "true":
		number = 1
	case text == "false":
		number = 0
	case err != nil || number < 1 || number > 5:
		return errors.New("want a number from 1 to 5")
	}
	*n = endedRun(number)
	return nil
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
