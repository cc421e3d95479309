package agentctl

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/client/diagnosis"
)

func (t *tool) diagnoseAgent() *cobra.Command {
	c := t.agentCommand("diagnose", "Explain why an agent does not run, and what to do", "GetAgent",
		func(ctx context.Context, api *client.Client, a *client.Agent) error {
			d, err := diagnosis.Collect(ctx, api, a.ID)
			if err != nil {
				return err
			}
			return t.show(result{value: d, names: []string{a.ID}, table: func(w io.Writer) error {
				printDiagnosis(asScreen(w), d)
				return nil
			}})
		})
	c.Long = "Explain why an agent does not run as it should, and what to do. The command reads the agent, its " +
		"secret operations and the end of its log, and changes nothing."
	c.Example = "  agentctl agents diagnose my-agent\n" +
		"  agentctl agents diagnose my-agent -o jsonpath='{.causes[*].code}'"
	return c
}

// printDiagnosis prints the summary, the causes and the evidence.
func printDiagnosis(s screen, d diagnosis.Diagnosis) {
	fmt.Fprintln(s, s.in(bold, harmless(d.Summary)))
	for _, c := range d.Causes {
		fmt.Fprintf(s, "\n%s %s\n", s.in(red, harmless(c.Code)+":"), harmless(c.Message))
		for _, e := range c.Evidence {
			fmt.Fprintf(s, "  %s%s\n", s.in(dim, "because   "), harmless(e))
		}
		for _, step := range c.YouCan {
			fmt.Fprintf(s, "  %s%s\n", s.in(green, "you can   "), harmless(step.Text))
			if command := commandOf(step.Action, d); command != "" {
				fmt.Fprintf(s, "            %s\n", command)
			}
		}
		if c.WeWill != "" {
			fmt.Fprintf(s, "  %s%s\n", s.in(dim, "we will   "), harmless(c.WeWill))
		}
	}
	if d.Log != nil && len(d.Log.Lines) > 0 {
		title := "The end of the log:"
		if d.Log.Previous {
			title = "The end of the log before the last restart:"
		}
		fmt.Fprintf(s, "\n%s\n", s.in(bold, title))
		for _, line := range d.Log.Lines {
			fmt.Fprintf(s, "  %s\n", harmless(line))
		}
	}
	for _, gap := range d.NotChecked {
		fmt.Fprintf(s, "\n%s %s\n", s.in(yellow, "Not checked:"), harmless(gap))
	}
}

// commandOf returns the command for a step of a diagnosis; empty if there is none.
func commandOf(action diagnosis.Action, d diagnosis.Diagnosis) string {
	agents := "agentctl agents "
	switch action {
	case diagnosis.Wait:
		return agents + "wait " + d.AgentID
	case diagnosis.ReadLogs:
		if d.Log != nil && d.Log.Previous {
			return agents + "logs " + d.AgentID + " --previous"
		}
		return agents + "logs " + d.AgentID
	case diagnosis.Restart:
		return agents + "restart " + d.AgentID + " --wait"
	case diagnosis.Start:
		return agents + "start " + d.AgentID + " --wait"
	case diagnosis.Resume:
		return agents + "resume " + d.AgentID + " --wait"
	case diagnosis.Update:
		return agents + "update " + d.AgentID + " --env KEY=VALUE --wait"
	case diagnosis.SetSecret:
		return "agentctl secrets set " + d.AgentID + " KEY --wait"
	case diagnosis.Reconcile:
		return "agentctl secrets operations " + d.AgentID
	case diagnosis.CreateLarger:
		return agents + "create NAME --plan PLAN"
	case diagnosis.ManageBilling:
		return "agentctl billing subscription"
	case diagnosis.ContactSupport:
	}
	return ""
}
