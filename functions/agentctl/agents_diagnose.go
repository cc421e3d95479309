package agentctl

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/client/diagnosis"
)

func (t *tool) diagnoseAgent() *cobra.Command {
	c := t.agentCommand("diagnose", "Explain why an agent does not run, and what to do", "DiagnoseAgent",
		func(ctx context.Context, api *client.Client, a *client.Agent) error {
			d, err := diagnosis.Collect(ctx, api, a.ID)
			if err != nil {
				return err
			}
			return t.show(result{value: d, names: []string{a.ID}, table: func(w io.Writer) error {
				t.printDiagnosis(asScreen(w), d)
				return nil
			}})
		})
	c.Long = "Explain why an agent does not run as it should, and what to do. The command shows the service's " +
		"diagnosis, checks whether the agent answers, reads the end of its log, and changes nothing."
	c.Example = "  agentctl agents diagnose my-agent\n" +
		"  agentctl agents diagnose my-agent -o jsonpath='{.causes[*].code}'"
	return c
}

// printDiagnosis prints the summary, the causes and the evidence.
func (t *tool) printDiagnosis(s screen, d diagnosis.Diagnosis) {
	fmt.Fprintln(s, s.in(bold, harmless(d.Summary)))
	t.printSchedule(s, d)
	if i := d.Image; i != nil {
		fmt.Fprintf(s, "Image: %s@%s %s\n", harmless(i.ID), harmless(i.Version), harmless(textOr(i.Digest, "")))
		if r := i.Reverted; r != nil {
			fmt.Fprintf(s, "%s the update to version %s: %s\n", s.in(yellow, "Undone:"), harmless(r.Version),
				harmless(r.Reason))
		}
	}
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
		if c.WeWill != nil {
			fmt.Fprintf(s, "  %s%s\n", s.in(dim, "we will   "), harmless(*c.WeWill))
		}
	}
	t.printTimeline(s, d)
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

// printSchedule prints who acts next, and when.
func (t *tool) printSchedule(s screen, d diagnosis.Diagnosis) {
	if d.WaitingFor == nil {
		return
	}
	who := map[client.DiagnosisParty]string{
		client.DiagnosisPartyWorker: "the service", client.DiagnosisPartyCluster: "the agent's cluster",
		client.DiagnosisPartyAgent: "the agent's program", client.DiagnosisPartyUser: "you",
		client.DiagnosisPartyBilling: "the organization's payments", client.DiagnosisPartySupport: "support",
	}[*d.WaitingFor]
	line := "Next: " + cmp.Or(who, harmless(string(*d.WaitingFor)))
	if d.NextAttemptAt != nil {
		line += ", again at " + t.moment(*d.NextAttemptAt)
	}
	if d.GivesUpAt != nil {
		line += ", gives up at " + t.moment(*d.GivesUpAt)
	}
	fmt.Fprintln(s, s.in(dim, line+"."))
}

// maxMoments is how many moments of the timeline are printed. -o json has all.
const maxMoments = 10

// printTimeline prints what happened last.
func (t *tool) printTimeline(s screen, d diagnosis.Diagnosis) {
	moments := d.Timeline[max(0, len(d.Timeline)-maxMoments):]
	if len(moments) == 0 {
		return
	}
	fmt.Fprintf(s, "\n%s\n", s.in(bold, "What happened:"))
	for _, m := range moments {
		fmt.Fprintf(s, "  %s  %s\n", s.in(dim, t.moment(m.At)), harmless(m.Message))
	}
}

// commandOf returns the command for a step of a diagnosis; empty if there is none.
func commandOf(action client.DiagnosisAction, d diagnosis.Diagnosis) string {
	agents := "agentctl agents "
	switch action {
	case client.DiagnosisActionWait:
		return agents + "wait " + d.AgentID
	case client.DiagnosisActionReadPreviousLogs:
		return agents + "logs " + d.AgentID + " --previous"
	case client.DiagnosisActionReadLogs:
		return agents + "logs " + d.AgentID
	case client.DiagnosisActionRestart:
		return agents + "restart " + d.AgentID + " --wait"
	case client.DiagnosisActionStart:
		return agents + "start " + d.AgentID + " --wait"
	case client.DiagnosisActionResume:
		return agents + "resume " + d.AgentID + " --wait"
	case client.DiagnosisActionUpdate:
		return agents + "update " + d.AgentID + " --env KEY=VALUE --wait"
	case client.DiagnosisActionSetSecret:
		return "agentctl secrets set " + d.AgentID + " KEY --wait"
	case client.DiagnosisActionReconcile:
		return "agentctl secrets operations " + d.AgentID
	case client.DiagnosisActionStop:
		return agents + "stop " + d.AgentID + " --wait"
	case client.DiagnosisActionViewMetrics:
		return agents + "metrics " + d.AgentID
	case client.DiagnosisActionMoveOutOfSandbox:
		return agents + "migrate-sandbox " + d.AgentID + " --enabled=false --wait"
	case client.DiagnosisActionRestoreSnapshot:
		return "agentctl snapshots list " + d.AgentID
	case client.DiagnosisActionComparePlans:
		return "agentctl billing plans"
	case client.DiagnosisActionResize:
		return agents + "update " + d.AgentID + " --plan PLAN --wait"
	case client.DiagnosisActionManageBilling:
		return "agentctl billing subscription"
	case client.DiagnosisActionAllowHosts:
		return "agentctl egress allow " + d.AgentID + " HOST"
	case client.DiagnosisActionContactSupport:
	}
	return ""
}
