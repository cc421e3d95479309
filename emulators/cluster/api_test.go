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
	kubeconfig := clustertest.Start(t, cluster.Options{}).Kubeconfig
	apitest.Run(t, apitest.Server{Config: clustertest.Config(t, kubeconfig), Kubeconfig: kubeconfig})
}
