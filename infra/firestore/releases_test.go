package firestore

import (
	"context"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/release"
	"agents.example/controlplane/shared/release/releasetest"
)

func TestReleases_Conform(t *testing.T) {
	t.Parallel()
	releasetest.Test(t, func(t *testing.T) releasetest.Fixture {
		one := open(t, "", Options{})
		other := open(t, one.project(), Options{})
		tenants := agentFixture(one)
		org := tenants.Tenant(t, plan.Enterprise)
		return releasetest.Fixture{
			Processes: [2]release.Store{one.Releases(), other.Releases()}, Agents: other.WorkerStore(),
			Records: other.WorkerStore(),
			CreateAgent: func(ctx context.Context, t *testing.T) agent.Agent {
				t.Helper()
				a, err := other.WorkerStore().Load(ctx, org.Create(plan.Hobby).ID)
				must(t, err)
				return a
			},
		}
	})
}
