package agent_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/identity"
)

// TestShow_FillsEveryField fails for a field of the view that Show forgets: clients would always get its zero value.
func TestShow_FillsEveryField(t *testing.T) {
	t.Parallel()
	admin := identity.Caller{Type: identity.Session, Role: identity.RoleAdmin, OrganizationID: "o"}
	v := agenttest.FullAgent(time.Now()).Show(admin, agent.Addresses{Domain: "agents.example.com", Scheme: "https"})
	elsewhere := []string{"DashboardHandoff"} // made by the route, which has the signing key
	for _, shown := range []any{v, v.Config, v.Config.ProvisioningStages[0], v.Config.PlanLimits} {
		value := reflect.ValueOf(shown)
		for i := range value.NumField() {
			name := value.Type().Field(i).Name
			if value.Field(i).IsZero() && !slices.Contains(elsewhere, name) {
				t.Errorf("%s.%s is zero for an agent with every field set: set it in Show", value.Type().Name(), name)
			}
		}
	}
}
