package agent

import (
	"time"

	"agents.example/controlplane/shared/fault"
)

// Reveal records that a client read the credentials. Errors: Conflict before they exist or while the agent is being
// deleted.
func (a *Agent) Reveal(now time.Time) error {
	if a.Status == Deleting {
		return a.conflict("reveal")
	}
	if a.CredentialVersion == 0 {
		return a.credentialsNotReady()
	}
	a.RevealedAt = now
	return nil
}

func (a Agent) credentialsNotReady() error {
	return fault.New(fault.Conflict, "credentials_not_ready",
		"The agent has no credentials yet. Retry when the provisioning stage %q has succeeded.", StageIdentity).
		WithMeta(a.ConflictMeta())
}
