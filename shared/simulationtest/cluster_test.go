package simulationtest

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning/provisioningtest"
)

func TestClusterClient_Conforms(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := NewCluster(time.Now, func() time.Duration { return time.Since(began) })
	d := &Direct{Cluster: c}
	client := ClusterClient{Cluster: c, Process: d, Name: "worker"}
	troubles := map[provisioningtest.Trouble]trouble{
		provisioningtest.None: healthy, provisioningtest.NeverReady: neverReady, provisioningtest.CrashLoop: crashLoop,
	}
	fixture := provisioningtest.Fixture{
		Cluster: client, Namespaces: PodClient(client), Pods: PodClient(client),
		Agent: func(*testing.T) agent.Agent {
			return agent.New(uuid.NewString(), cell, agent.Draft{Name: "a", Plan: plan.Starter}, d.Now())
		},
		Suffer: func(t *testing.T, a agent.Agent, trouble provisioningtest.Trouble) {
			t.Helper()
			if err := d.Step(t.Context(), ClusterService, "trouble", func() error {
				c.troubles[a.ID] = troubles[trouble]
				return nil
			}); err != nil {
				t.Error(err)
			}
		},
	}
	provisioningtest.Run(t, fixture)
	provisioningtest.RunVolumes(t, provisioningtest.VolumeFixture{Fixture: fixture, Volumes: client})
}
