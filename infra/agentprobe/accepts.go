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

// Accepts implements provisioning.Gateway. It asks twice, with the password as the dashboard's users send it, and with
// the key as callers of the API do.
func (g *Prober) Accepts(ctx context.Context, a agent.Agent, c credential.Credentials) (provisioning.Verdict, error) {
	basic := base64.StdEncoding.EncodeToString([]byte(c.DashboardUsername + ":" + c.DashboardPassword))
	password, err := g.check(ctx, a, "Basic "+basic)
	if err != nil {
		return "", err
	}
	key, err := g.check(ctx, a, "Bearer "+c.APIKey)
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

func (g *Prober) check(ctx context.Context, a agent.Agent, authorization string) (accepted bool, err error) {
	status, err := g.ask(ctx, a, checkPath, func(h http.Header) { h.Set("Authorization", authorization) })
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
