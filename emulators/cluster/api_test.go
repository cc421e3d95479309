//go:build unix

package cluster_test

import (
	"testing"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/cluster/apitest"
	"agents.example/controlplane/emulators/clustertest"
)

func TestCluster_ServesTheAPI(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, cluster.Options{})
	apitest.Run(t, apitest.Server{
		Config: clustertest.Config(t, c.Kubeconfig), Kubeconfig: c.Kubeconfig, Embedded: clustertest.Kind() == cluster.Embedded,
	})
}
