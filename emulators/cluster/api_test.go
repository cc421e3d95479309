//go:build unix

package cluster_test

import (
	"testing"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/cluster/apitest"
	"agents.example/controlplane/emulators/clustertest"
)

// notEmbedded has what the embedded API server does not do. Its README lists the same.
func notEmbedded() map[string]string {
	return map[string]string{
		"controllers/revisions of a stateful set": "former templates of workloads are not kept",
		"discovery/aggregated discovery":          "clients ask for each group instead",
		"discovery/OpenAPI":                       "the types of fields are not described",
		"kubectl/explain":                         "the types of fields are not described",
	}
}

func TestCluster_ServesTheAPI(t *testing.T) {
	t.Parallel()
	c := shared.Start(t)
	s := apitest.Server{Config: clustertest.Config(t, c.Kubeconfig), Kubeconfig: c.Kubeconfig}
	if clustertest.Kind() == cluster.Embedded {
		s.Skipped = notEmbedded()
	}
	apitest.Run(t, s)
}
