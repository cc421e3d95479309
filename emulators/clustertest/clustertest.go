//go:build unix

// Package clustertest starts a local Kubernetes cluster for tests: one for a test, or one that a package shares.
//
// The control plane is the embedded one, and in the full tier of tests the real one, whose build never uses up a test's
// time. Only that one can have a real node. Tests with a cluster skip with -short. The package does not call the
// cluster.
package clustertest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/kubeclient"
	"agents.example/controlplane/shared/testtier"
)

// Kind returns the kind of the clusters of tests. Require refuses unknown tiers.
func Kind() cluster.Kind {
	if tier, err := testtier.Current(); err == nil && tier != testtier.Embedded {
		return cluster.Real
	}
	return cluster.Embedded
}

// Require skips a test with -short. If clusters are real ones, it builds their binary if it is not there, and fails the
// test immediately when the build would take longer than go test gives the package.
func Require(t *testing.T) {
	t.Helper()
	RequireKind(t, Kind())
}

// RequireKind is Require for a test that needs clusters of one kind. Real ones are for the full tier.
func RequireKind(t *testing.T, kind cluster.Kind) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out with -short: needs a local Kubernetes cluster")
	}
	if kind == cluster.Embedded {
		return
	}
	testtier.RequireFull(t, "needs a real Kubernetes API server")
	testtier.RequireBuilt(t, cluster.BuildTime, cluster.Build)
}

// Start starts a cluster for one test and closes it with the test. An empty o.Dir is a directory of the test, an empty
// o.Kind is that of Kind.
func Start(t *testing.T, o cluster.Options) *cluster.Cluster {
	t.Helper()
	if o.Kind == "" {
		o.Kind = Kind()
	}
	RequireKind(t, o.Kind)
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	c, err := cluster.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Config returns the configuration of clients for the cluster of a kubeconfig. They send requests without a rate limit.
func Config(t *testing.T, kubeconfig string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// Client returns an administrator's client for the cluster of a kubeconfig. Its connections close with the test.
func Client(t *testing.T, kubeconfig string) *kubeclient.Client {
	t.Helper()
	client, err := kubeclient.New(Config(t, kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

const (
	// heapGrowth is how much a heap grows between two garbage collections, in percent of what is live; the default is
	// 100.
	heapGrowth = 400
	// concurrentTests is how many parallel tests run at the same time. The default is the number of CPUs.
	concurrentTests = 6
)

// Prepare suits go test to tests with a cluster. They mostly wait, so that more of them run concurrently, unless
// -parallel says how many. TestMain calls it.
func Prepare() {
	_ = flag.Set("test.parallel", strconv.Itoa(concurrentTests)) // fails only outside a test
	SpareCPU()
}

// SpareCPU makes this process and its later children collect garbage less often: tests are short, and a machine that
// runs a cluster has memory to spare.
func SpareCPU() {
	debug.SetGCPercent(heapGrowth)
	_ = os.Setenv("GOGC", strconv.Itoa(heapGrowth)) // fails only for a malformed name
}

const (
	// patience is how long a test waits for a condition that takes a second on an idle machine.
	patience = 3 * time.Minute
	// pollInterval is how often a test checks a condition. A check may be several requests, and many tests wait
	// concurrently.
	pollInterval = 100 * time.Millisecond
)

// Eventually waits until check returns no error. It ends the test if that takes too long.
func Eventually(t *testing.T, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("timed out after %s: %v", patience, err)
		case <-tick.C:
		}
	}
}

// Shared is a cluster that the tests of a package share. The first test that calls Start starts it; TestMain runs the
// tests with Run, or calls Close after them. The zero value is ready to use.
type Shared struct {
	mu      sync.Mutex
	dir     string
	cluster *cluster.Cluster
	err     error
}

// Start returns the shared cluster. It skips and fails as the package's Start does.
func (s *Shared) Start(t *testing.T) *cluster.Cluster {
	t.Helper()
	Require(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == nil && s.err == nil {
		s.err = s.start()
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.cluster
}

// start does not use the context of a test: the cluster outlives it.
func (s *Shared) start() (err error) {
	if s.dir, err = os.MkdirTemp("", "cluster-test-"); err != nil {
		return err
	}
	s.cluster, err = cluster.Start(context.Background(), cluster.Options{Dir: s.dir, Kind: Kind()})
	return err
}

// Run returns the tests of a package, with the end of the cluster as their last step. goleak then finds no process or
// connection of the cluster.
func (s *Shared) Run(m *testing.M) goleak.TestingM { return closing{m, s} }

type closing struct {
	tests  *testing.M
	shared *Shared
}

// Run implements goleak.TestingM.
func (c closing) Run() int {
	code := c.tests.Run()
	if err := c.shared.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// Close ends the cluster, if a test started it, and removes its state.
func (s *Shared) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.cluster != nil {
		err = s.cluster.Close()
	}
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}
