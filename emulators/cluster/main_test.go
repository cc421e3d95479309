//go:build unix

package cluster_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"agents.example/controlplane/emulators/cluster"
)

// parentVariable makes the test binary a parent of a cluster in the directory that it names, to be killed.
const parentVariable = "CLUSTER_TEST_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentVariable); dir != "" {
		os.Exit(parent(dir))
	}
	goleak.VerifyTestMain(m)
}

// parent starts a cluster, says where its kubeconfig is, and waits for its end, which is to be a violent one.
func parent(dir string) int {
	c, err := cluster.Start(context.Background(), cluster.Options{Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(c.Kubeconfig)
	<-c.Done()
	return 1
}
