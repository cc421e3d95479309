package agentctl_test

import (
	"net/http/httptest"
	"testing"

	"agents.example/controlplane/shared/agent"
)

// closedAddress returns an address where no server runs.
func closedAddress(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(nil)
	s.Close()
	return s.Listener.Addr().String()
}

// failAgent makes an agent one that exits again and again.
func failAgent(t *testing.T, a *api, id string) {
	t.Helper()
	a.UpdateAgent(t, id, func(r *agent.Agent) {
		r.Status = agent.Error
		r.Failure = &agent.Failure{
			Code: "pod_crash_loop", Stage: agent.StageReady, Message: "It exits.", Retryable: true,
		}
	})
}

// renameAgent gives an agent a name that the API would refuse.
func renameAgent(t *testing.T, a *api, id, name string) {
	t.Helper()
	a.UpdateAgent(t, id, func(r *agent.Agent) { r.Name = name })
}
