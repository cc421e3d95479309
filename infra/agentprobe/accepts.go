package agentprobe

import (
	"context"
	"encoding/base64"
	"net/http"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/provisioning"
)

// checkPath answers 204 to who brings a credential that the agent accepts, and 401 to all others (the runtime
// contract).
const checkPath = "/auth/check"

// Accepts implements provisioning.AgentProber. It makes two requests: one with the password, as users of the dashboard
// send it, and one with the key, as callers of the API send it.
func (p *Prober) Accepts(ctx context.Context, a agent.Agent, c credential.Credentials) (provisioning.Verdict, error) {
	basic := base64.StdEncoding.EncodeToString([]byte(c.DashboardUsername + ":" + c.DashboardPassword))
	password, err := p.accepted(ctx, a, "Basic "+basic)
	if err != nil {
		return "", err
	}
	key, err := p.accepted(ctx, a, "Bearer "+c.APIKey)
	switch {
	case err != nil:
		return "", err
	case password && key:
		return provisioning.Accepted, nil
	case password || key:
		return provisioning.Divided, nil
	default:
		return provisioning.Refused, nil
	}
}

func (p *Prober) accepted(ctx context.Context, a agent.Agent, authorization string) (accepted bool, err error) {
	status, err := p.requestStatus(ctx, a, checkPath, func(h http.Header) { h.Set("Authorization", authorization) })
	switch {
	case err != nil:
		return false, err
	case status == http.StatusNoContent:
		return true, nil
	case status == http.StatusUnauthorized:
		return false, nil
	default:
		return false, badStatus(status)
	}
}
