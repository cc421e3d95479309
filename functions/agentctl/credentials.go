package agentctl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// credentialsCommand is the family of commands for the credentials of an agent's dashboard and API.
func (t *tool) credentialsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "credentials", Aliases: []string{"creds"},
		Short: "Reveal and rotate the credentials of an agent's dashboard",
	}
	c.AddCommand(t.revealCredentials(), t.rotateCredentials())
	return c
}

func (t *tool) revealCredentials() *cobra.Command {
	c := t.agentCommand("reveal", "Print the credentials of an agent's dashboard and API", "RevealCredentials",
		func(ctx context.Context, api *client.Client, a *client.Agent) error {
			creds, err := api.RevealCredentials(ctx, a.ID)
			if err != nil {
				return err
			}
			if creds.RotationPending {
				t.note("Warning: a rotation is pending. The agent does not accept these credentials yet.\nRun: "+
					"agentctl credentials rotate %s --wait", a.ID)
			}
			return t.show(object(creds, creds.AgentID, []field{
				{"Username", creds.DashboardUsername},
				{"Password", creds.DashboardPassword},
				{"API key", creds.TenantAPIKey},
				{"Version", fmt.Sprint(creds.CredentialVersion)},
			}))
		})
	c.Long = "Print the user name and password of the agent's dashboard, and the bearer token of the agent's API. " +
		"The audit log records the call. The values go to standard output only."
	c.Example = "  agentctl credentials reveal my-agent\n" +
		"  agentctl credentials reveal my-agent -o jsonpath='{.tenant_api_key}' | pbcopy"
	return c
}

func (t *tool) rotateCredentials() *cobra.Command {
	var wait bool
	var dryRun rehearsalFlag
	c := t.agentCommand("rotate", "Replace the credentials of an agent's dashboard and API", "RotateCredentials",
		func(ctx context.Context, api *client.Client, a *client.Agent) error {
			a, err := api.RotateCredentials(ctx, a.ID, dryRun.options()...)
			if err != nil {
				return err
			}
			if dryRun.on {
				return t.showRehearsal(&dryRun.answer)
			}
			if wait {
				if a, err = t.awaitRotation(ctx, api, a); err != nil {
					return err
				}
			}
			return t.show(object(a, a.ID, []field{
				{"Agent", a.Name + " (" + a.ID + ")"}, {"Status", string(a.Status)}, {"Rotation", rotationOf(a)},
			}))
		})
	c.Long = "Replace the credentials of the agent's dashboard and API. The rotation is pending until the agent " +
		"accepts the new credentials and refuses the old ones; --wait waits for that. Then reveal shows the new ones."
	c.Example = "  agentctl credentials rotate my-agent --wait --timeout 5m\n" +
		"  agentctl credentials reveal my-agent"
	c.Flags().BoolVar(&wait, "wait", false, "wait until the agent accepts the new credentials and refuses the old ones")
	dryRun.add(c)
	return c
}

func rotationOf(a *client.Agent) string {
	switch {
	case !a.CredentialRotationPending:
		return "done"
	case needsStart(a):
		return "pending until the agent starts"
	}
	return "pending"
}

// needsStart reports whether an agent has no pod until a client starts or resumes it.
func needsStart(a *client.Agent) bool {
	return a.Status == client.AgentStatusPaused || a.Status == client.AgentStatusStopped
}

const (
	// rotationPoll is the time between two reads of an agent whose rotation is waited for.
	rotationPoll = time.Second
	// longestStoring is how long the API may take to know whether it has stored new credentials.
	longestStoring = 30 * time.Second
)

// awaitRotation waits until an agent has its new credentials, or cannot get them before it starts.
func (t *tool) awaitRotation(ctx context.Context, api *client.Client, a *client.Agent) (*client.Agent, error) {
	began := time.Now()
	for {
		switch {
		case !a.CredentialRotationPending:
			return a, nil
		case needsStart(a):
			t.note("The agent is %s. It gets the new credentials at its next start.", a.Status)
			return a, nil
		case a.Status == client.AgentStatusError:
			return nil, withNext(failedError{fmt.Errorf("the agent is in error, so the rotation waits: %s",
				textOr(a.ErrorMessage, "no reason is known"))}, "Run: agentctl agents restart "+a.ID)
		case a.Status == client.AgentStatusDeleting:
			return nil, failedError{errors.New("the agent is being deleted, so the rotation was canceled")}
		}
		if err := pause(ctx, rotationPoll); err != nil {
			return nil, err
		}
		if err := rotationFailure(ctx, api, a.ID, time.Since(began)); err != nil {
			return nil, err
		}
		var err error
		if a, err = api.GetAgent(ctx, a.ID, client.GetAgentParams{}); err != nil {
			return nil, err
		}
	}
}

// credentialsKey is the key of the operations that rotate credentials.
const credentialsKey = "DASHBOARD_CREDENTIALS"

// rotationFailure returns an error if the newest rotation of an agent waits for the user: it failed, or its credentials
// were not stored in time.
func rotationFailure(ctx context.Context, api *client.Client, agentID string, waited time.Duration) error {
	page, err := api.ListSecretOperations(agentID, client.ListSecretOperationsParams{}).Page(ctx)
	if err != nil {
		return err
	}
	for _, o := range page.Items {
		if o.Key != credentialsKey {
			continue
		}
		if o.Status == client.SecretOperationStatusFailed {
			return withNext(failedError{fmt.Errorf("the rotation failed at the stage %s: %s", o.Stage,
				textOr(o.ErrorCode, "no reason is known"))}, "Run: agentctl secrets reconcile "+agentID+" "+o.ID)
		}
		if o.IsStoring() && waited > longestStoring {
			return withNext(failedError{errors.New("it is not known whether the new credentials were stored")},
				storingRemedies(agentID, o)...)
		}
		return nil
	}
	return nil
}
