package firestore

import (
	"context"
	"encoding/json"
	"strings"
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

// TestReleases_AStepFitsIntoARequest has agents with as much text as clients may store in them.
func TestReleases_AStepFitsIntoARequest(t *testing.T) {
	t.Parallel()
	const mostOfARequest = 10 << 20 // what Firestore takes
	text := func(bytes int) string { return strings.Repeat("x", bytes) }
	a := agenttest.FullAgent(agenttest.Now())
	a.Config = json.RawMessage(`{"text":"` + text(agent.MaxConfigBytes-11) + `"}`)
	a.Env = []agent.EnvVar{{Key: "TEXT", Value: text(agent.MaxEnvBytes)}}
	a.Files = []agent.File{{Path: "/config/text", Content: text(agent.MaxFilesBytes)}}
	a.Schedules = []agent.Schedule{{ScheduleTerms: agent.ScheduleTerms{
		ID: "text", Cron: "0 9 * * *", Timezone: "Etc/UTC", Body: text(agent.MaxScheduleBodiesBytes),
	}}}
	encoded, err := json.Marshal(encodeAgent(a, "a write"))
	must(t, err)
	if all := len(encoded) * release.MaxChanges; all > mostOfARequest {
		t.Errorf("a step with %d large agents has %d bytes, want at most %d", release.MaxChanges, all, mostOfARequest)
	}
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
