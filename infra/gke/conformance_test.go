//go:build unix

package gke

import (
	"testing"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning/provisioningtest"
)

func TestClusters_Conformance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	faults := map[provisioningtest.Trouble]cluster.Fault{
		provisioningtest.None: "", provisioningtest.NeverReady: cluster.NotReady,
		provisioningtest.CrashLoop: cluster.CrashLoop,
	}
	fixture := provisioningtest.Fixture{
		Cluster: w, Namespaces: w, Pods: w, Agent: w.newAgent,
		Suffer: func(t *testing.T, a agent.Agent, trouble provisioningtest.Trouble) {
			t.Helper()
			w.suffer(t, a, faults[trouble])
		},
	}
	provisioningtest.Run(t, fixture)
	provisioningtest.RunVolumes(t, provisioningtest.VolumeFixture{Fixture: fixture, Volumes: w})
}
