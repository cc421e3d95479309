package firestore

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/fault"
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

// TestReleases_CreateUnderFaults fails every call of a creation. An answer names no release that does not exist.
func TestReleases_CreateUnderFaults(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	forEachFault(func(f *injectedFault) bool {
		image := "i" + agenttest.ID()[:8]
		_, err := c.Releases().Create(t.Context(), release.Release{Image: image, State: release.Done})
		must(t, err)
		_, err = open(t, c.project(), f.options()).Releases().Create(t.Context(), release.Release{Image: image})
		latest, latestErr := c.Releases().latest(t.Context(), image)
		must(t, latestErr)
		if err != nil && !isTemporary(err, f) && (fault.Code(err) != "release_open" || latest.Number != 2) {
			t.Errorf("%s: error %v of release %d, want Unavailable", f, err, latest.Number)
		}
		return f.reached()
	}, codes.Unavailable, codes.Aborted)
}
