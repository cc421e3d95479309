package agentctl

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// rehearsalFlag is the flag --dry-run of commands that change an agent, and the answer to the rehearsal.
type rehearsalFlag struct {
	on     bool
	answer client.Rehearsal
}

// add defines the flag. The command must have --wait already, which a rehearsal has no use for.
func (f *rehearsalFlag) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.on, "dry-run", false, "show what would happen, and change nothing")
	if c.Flags().Lookup("wait") != nil {
		c.MarkFlagsMutuallyExclusive("dry-run", "wait")
	}
}

// options returns what the flag adds to a call.
func (f *rehearsalFlag) options() []client.CallOption {
	if !f.on {
		return nil
	}
	return []client.CallOption{client.DryRun(&f.answer)}
}

// showRehearsal prints what a command would do.
func (t *tool) showRehearsal(r *client.Rehearsal) error {
	would := r.Would
	price := "by contract"
	if would.MonthlyPriceChangeUsd != nil {
		price = fmt.Sprintf("%+.2f USD a month", *would.MonthlyPriceChangeUsd)
	}
	err := t.show(object(r, r.Agent.ID, []field{
		{"Agent", r.Agent.Name},
		{"Status", string(would.Status)},
		{"Restarts", yesNo(would.Restarts)},
		{"Downtime", downtimeText(would)},
		{"Loses data since", t.momentOr(would.LosesDataSince, "")},
		{"Loses hosts", lostHosts(would)},
		{"Agents", fmt.Sprintf("%d -> %d", would.UsageBefore.Agents, would.UsageAfter.Agents)},
		{"CPU", short(would.UsageBefore.CPUCores) + " -> " + short(would.UsageAfter.CPUCores)},
		{"Memory", bytesText(float64(would.UsageBefore.MemoryBytes)) + " -> " +
			bytesText(float64(would.UsageAfter.MemoryBytes))},
		{"Storage", bytesText(float64(would.UsageBefore.StorageBytes)) + " -> " +
			bytesText(float64(would.UsageAfter.StorageBytes))},
		{"Price", price},
	}))
	t.next("This was a rehearsal: nothing was changed.")
	return err
}

// lostHosts names the hosts that an agent uses and would no longer reach.
func lostHosts(would client.RehearsalWould) string {
	hosts := make([]string, len(would.LosesHosts))
	for i, h := range would.LosesHosts {
		hosts[i] = fmt.Sprintf("%s (%d in 7 days)", h.Host, h.Used)
	}
	return shortList(hosts)
}

// shortList names things, of which a long list has only the first.
func shortList(names []string) string {
	const most = 5
	text := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
}

// downtimeText says how long an agent would not answer.
func downtimeText(would client.RehearsalWould) string {
	switch seconds := would.DowntimeSecondsEstimate; {
	case seconds == nil:
		return "unknown, or until the agent is started again"
	case *seconds == 0:
		return "none"
	default:
		return fmt.Sprintf("about %d s", *seconds)
	}
}
