package agentctl

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

func (t *tool) openAgent() *cobra.Command {
	var only, direct bool
	c := t.agentCommand("open", "Open an agent's dashboard in a browser", "GetAgent", nil)
	c.Long = "Open an agent's dashboard in a browser. The session of an admin is signed in at the dashboard by a " +
		"link that works once. With an API key, the command prints the address and how to get the password.\n\n" +
		"The browser gets the link from a temporary file, which the command removes after some seconds, because " +
		"other users of the machine can see arguments. With --direct, the link is an argument, for browsers that " +
		"cannot read temporary files.\n\nAn agent that is asleep is woken first, and opened when it runs."
	c.Example = "  agentctl agents open my-agent\n  agentctl agents open my-agent --print"
	c.RunE = t.forAgent(func(ctx context.Context, api *client.Client, a *client.Agent) error {
		a, err := api.GetAgent(ctx, a.ID, client.GetAgentParams{}) // lists have no link
		if err != nil {
			return err
		}
		if isAsleep(a) && !only {
			if a, err = t.wakeToOpen(ctx, api, a); err != nil {
				return err
			}
		}
		if a.DashboardURL == nil {
			return withNext(failedError{fmt.Errorf("%s has no dashboard yet: it is %s", a.Name, a.Status)},
				"Wait for it: agentctl agents wait "+a.ID)
		}
		switch {
		case isAsleep(a) && slices.Contains(a.Sleep.WakeOn, client.AgentWakerRequest):
			t.note("%s is asleep. A visit of its dashboard wakes it.", a.Name)
		case a.Status != client.AgentStatusRunning:
			t.note("%s is %s, so its dashboard does not answer.", a.Name, statusWord(a))
		}
		if a.DashboardHandoffURL != nil && !only {
			opened := func() { t.note("Opened the dashboard of %s.", a.Name) }
			if t.open(ctx, *a.DashboardHandoffURL, direct, opened) == nil {
				return nil
			}
			t.note("No browser could be opened.")
		}
		return t.printDashboard(a)
	})
	c.Flags().BoolVar(&only, "print", false, "print the address instead of opening it")
	c.Flags().BoolVar(&direct, "direct", false, "give the link to the browser as an argument, not in a file")
	c.MarkFlagsMutuallyExclusive("print", "direct")
	return c
}

// printDashboard prints the address of a dashboard, and how to sign in there.
func (t *tool) printDashboard(a *client.Agent) error {
	err := t.show(result{value: a, names: []string{a.ID}, table: textOf(harmless(*a.DashboardURL))})
	if user := textOr(a.DashboardUsername, ""); user != "" {
		t.next("Sign in as %s. For the password: agentctl credentials reveal %s", user, a.ID)
	}
	return err
}
