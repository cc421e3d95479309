package firestore

import (
	"context"
	"crypto/subtle"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/identity"
)

// AgentFinder implements identity.AgentFinder.
type AgentFinder struct{ client *Client }

var _ identity.AgentFinder = (*AgentFinder)(nil)

// AgentFinder is the store of agents for their own calls.
func (c *Client) AgentFinder() *AgentFinder { return &AgentFinder{client: c} }

// FindAgent implements identity.AgentFinder.
func (f *AgentFinder) FindAgent(ctx context.Context, agentID, keyHash string) (organizationID, name string, err error) {
	a, err := f.client.WorkerStore().Load(ctx, agentID)
	switch {
	case err != nil:
		return "", "", err
	case a.Status == agent.Deleting, subtle.ConstantTimeCompare([]byte(a.APIKeyHash), []byte(keyHash)) != 1:
		return "", "", agent.NotFound()
	default:
		return a.OrganizationID, a.Name, nil
	}
}
