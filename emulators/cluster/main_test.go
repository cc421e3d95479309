//go:build unix

package cluster_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/cluster/apitest"
	"agents.example/controlplane/emulators/clustertest"
)

// parentVariable makes the test binary start a cluster in the directory that it names, and wait until it is killed.
const parentVariable = "CLUSTER_TEST_PARENT"

// shared is the cluster of the tests that neither end it nor need images.
var shared clustertest.Shared

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentVariable); dir != "" {
		os.Exit(runParent(dir))
	}
	clustertest.Prepare()
	goleak.VerifyTestMain(shared.Run(m))
}

// runParent starts a cluster, prints the path of its kubeconfig, and waits until it is killed.
func runParent(dir string) int {
	c, err := cluster.Start(context.Background(), cluster.Options{Dir: dir, Kind: clustertest.Kind()})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(c.Kubeconfig)
	<-c.Done()
	return 1
}

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
