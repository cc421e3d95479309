// Package provisioningtest tests that an adapter keeps the promises of provisioning.Cluster, NamespaceLister and
// PodLister. It does not make a cluster fail itself: the adapter's test provides that in Fixture.Suffer.
package provisioningtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

// Trouble is what is wrong with the pods of an agent.
type Trouble string

// The troubles.
const (
	// None: the pods are healthy.
	None Trouble = ""
	// NeverReady: the pod runs but is not ready.
	NeverReady Trouble = "never ready"
	// CrashLoop: the container ends repeatedly.
	CrashLoop Trouble = "crash loop"
)

// Fixture holds the adapter under test.
type Fixture struct {
	Cluster    provisioning.Cluster
	Namespaces provisioning.NamespaceLister
	Pods       provisioning.PodLister
	// Agent makes the record of a new agent in Provisioning, on a cell of the adapter.
	Agent func(t *testing.T) agent.Agent
	// Suffer sets the trouble of the agent's pods. The agent's namespace exists.
	Suffer func(t *testing.T, a agent.Agent, trouble Trouble)
}

// Run runs the suite. Its tests run in parallel, independent of each other and of other agents on the cluster.
func Run(t *testing.T, w Fixture) {
	for name, test := range map[string]func(*testing.T, Fixture){
		"brings an agent up, twice":               testBringUp,
		"awaits the desired pod, not the old one": testDesiredPod,
		"stops and starts":                        testStopAndStart,
		"reports a pod that is not ready":         testNeverReady,
		"reports a crash loop, and recovers":      testCrashLoop,
		"reports a missing namespace":             testNamespaceMissing,
		"grows a volume and never shrinks it":     testVolumeGrows,
		"grows a volume that is not made yet":     testVolumeUnbound,
		"makes no lost volume":                    testVolumeLost,
		"refuses a former generation":             testStale,
		"prunes what former generations used":     testPrune,
		"refuses an unknown cell":                 testUnknownCell,
		"deletes an agent":                        testDelete,
		"deletes an incomplete agent":             testDeleteHalf,
		"deletes an agent without objects":        testDeleteNothing,
		"lists namespaces":                        testNamespaces,
		"marks and stops orphans":                 testMarkNamespace,
		"lists pods":                              testPods,
		"lists pods in trouble":                   testPodsInTrouble,
		"reports which objects exist":             testExistence,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, w)
		})
	}
}

// Input is the RuntimeInput of the suite's agents.
func Input() provisioning.RuntimeInput {
	return provisioning.RuntimeInput{Credentials: credential.Credentials{
		DashboardUsername: "admin",
		DashboardPassword: "password", APIKey: "key",
	}}
}

func (w Fixture) apply(t *testing.T, a agent.Agent, stages ...agent.StageName) {
	t.Helper()
	if len(stages) == 0 {
		stages = agent.StageNames()
	}
	for _, stage := range stages {
		if err := w.Cluster.Apply(t.Context(), a, stage, Input()); err != nil {
			t.Fatalf("stage %s: %v", stage, err)
		}
	}
}

func (w Fixture) awaitReady(t *testing.T, a agent.Agent) {
	t.Helper()
	w.eventually(t, func(ctx context.Context) error { return w.Cluster.CheckReady(ctx, a) })
}

const (
	// pollInterval is how often the suite looks.
	pollInterval = 20 * time.Millisecond
	// patience bounds the wait for an expected event. Only a failing test reaches it.
	patience = 2 * time.Minute
)

// eventually looks until check returns no error. It ends the test if that takes too long.
func (w Fixture) eventually(t *testing.T, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("timed out after %s: %v", patience, err)
		case <-time.After(pollInterval):
		}
	}
}

// awaitNotReady waits until CheckReady returns a PodFailure that is not permanent.
func (w Fixture) awaitNotReady(t *testing.T, a agent.Agent) {
	t.Helper()
	w.eventually(t, func(ctx context.Context) error {
		err := w.Cluster.CheckReady(ctx, a)
		var failure *provisioning.PodFailure
		if !errors.As(err, &failure) || failure.Permanent || failure.Code == "" || failure.Message == "" {
			return fmt.Errorf("CheckReady = %w, want a PodFailure that is not permanent", err)
		}
		return nil
	})
}

func (w Fixture) awaitGone(t *testing.T, a agent.Agent) {
	t.Helper()
	w.eventually(t, func(ctx context.Context) error {
		gone, err := w.Cluster.CheckGone(ctx, a)
		if err == nil && !gone.All() {
			err = errors.New("the agent's objects still exist")
		}
		return err
	})
}

func testNamespaceMissing(t *testing.T, w Fixture) {
	a := w.Agent(t)
	for _, stage := range []agent.StageName{
		agent.StagePolicy, agent.StageIdentity, agent.StageSecrets, agent.StageStorage, agent.StageRuntime,
		agent.StageRoute,
	} {
		if err := w.Cluster.Apply(t.Context(), a, stage,
			Input()); fault.Code(err) != provisioning.CodeNamespaceMissing {
			t.Errorf("stage %s: error %v, want %s", stage, err, provisioning.CodeNamespaceMissing)
		}
	}
}

func testUnknownCell(t *testing.T, w Fixture) {
	a := w.Agent(t)
	a.Cell = "no-such-cell"
	_, gone := w.Cluster.CheckGone(t.Context(), a)
	for name, err := range map[string]error{
		"Apply":      w.Cluster.Apply(t.Context(), a, agent.StageNamespace, Input()),
		"CheckReady": w.Cluster.CheckReady(t.Context(), a),
		"Delete":     w.Cluster.Delete(t.Context(), a),
		"Prune":      w.Cluster.Prune(t.Context(), a),
		"CheckGone":  gone,
	} {
		if !fault.Is(err, fault.Unavailable) || fault.Code(err) != "cell_unknown" {
			t.Errorf("%s: error %v, want an Unavailable cell_unknown", name, err)
		}
	}
}
