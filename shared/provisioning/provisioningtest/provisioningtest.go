// Package provisioningtest is the conformance suite of the ports Cluster, Fleet and Lookout: what package provisioning
// relies on, whatever stands behind them. It does not know how a cluster is made to fail; who runs the suite tells it.
package provisioningtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

// Trouble is what the pods of an agent suffer from.
type Trouble string

// The troubles.
const (
	// None heals.
	None Trouble = ""
	// NeverReady: the pod runs, but is not ready.
	NeverReady Trouble = "never ready"
	// CrashLoop: the pod ends again and again.
	CrashLoop Trouble = "crash loop"
)

// World is what the suite is run against.
type World struct {
	Cluster    provisioning.Cluster
	Namespaces provisioning.NamespaceLister
	Pods       provisioning.PodLister
	// Agent makes the record of an agent in Provisioning that the cluster has not seen, on a cell that it has.
	Agent func(t *testing.T) agent.Agent
	// Suffer has the agent's pods suffer, or heals them. The agent's namespace is there.
	Suffer func(t *testing.T, a agent.Agent, trouble Trouble)
	// Patience is how long something may take that should happen.
	Patience time.Duration
	// Moment is long enough for a pod to be seen in trouble.
	Moment time.Duration
}

// Run runs the suite. Its tests are independent of each other and of other agents on the cluster, and run at once.
func Run(t *testing.T, w World) {
	for name, test := range map[string]func(*testing.T, World){
		"brings up, twice":                     testBringUp,
		"counts the desired pod only":          testDesiredPod,
		"stops and starts":                     testStopAndStart,
		"tells of a pod that is not ready":     testNeverReady,
		"tells of a crash loop, and is mended": testCrashLoop,
		"needs the namespace":                  testNamespaceMissing,
		"knows its cells":                      testUnknownCell,
		"takes away":                           testDelete,
		"takes away what was half made":        testDeleteHalf,
		"takes away what never was":            testDeleteNothing,
		"lists namespaces":                     testNamespaces,
		"looks out":                            testPods,
		"looks out for trouble":                testPodsInTrouble,
		"looks out for what there is":          testPresence,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, w)
		})
	}
}

// Input is what the suite's agents are made from.
func Input() provisioning.RuntimeInput {
	return provisioning.RuntimeInput{Credentials: credential.Credentials{
		DashboardUsername: "admin",
		DashboardPassword: "password", APIKey: "key",
	}}
}

func (w World) apply(t *testing.T, a agent.Agent, stages ...agent.StageName) {
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

func (w World) awaitReady(t *testing.T, a agent.Agent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), w.Patience)
	defer cancel()
	if err := w.Cluster.AwaitReady(ctx, a); err != nil {
		t.Fatalf("wait for readiness: %v", err)
	}
}

// wantNotReady waits for a moment and wants to hear of a failure that is not certain, and of the deadline.
func (w World) wantNotReady(t *testing.T, a agent.Agent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), w.Moment)
	defer cancel()
	err := w.Cluster.AwaitReady(ctx, a)
	var failure *provisioning.PodFailure
	if !errors.As(err, &failure) || failure.Permanent || failure.Code == "" || failure.Message == "" {
		t.Errorf("error %v, want a PodFailure that may pass", err)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want it to be the deadline's, too", err)
	}
}

func (w World) awaitGone(t *testing.T, a agent.Agent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), w.Patience)
	defer cancel()
	if err := w.Cluster.AwaitGone(ctx, a); err != nil {
		t.Fatalf("wait for the end of the deletion: %v", err)
	}
}

func testNamespaceMissing(t *testing.T, w World) {
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

func testUnknownCell(t *testing.T, w World) {
	a := w.Agent(t)
	a.Cell = "no-such-cell"
	for name, err := range map[string]error{
		"Apply":      w.Cluster.Apply(t.Context(), a, agent.StageNamespace, Input()),
		"AwaitReady": w.Cluster.AwaitReady(t.Context(), a),
		"Delete":     w.Cluster.Delete(t.Context(), a),
		"AwaitGone":  w.Cluster.AwaitGone(t.Context(), a),
	} {
		var permanent *provisioning.Permanent
		if !errors.As(err, &permanent) || permanent.Code != "cell_unknown" {
			t.Errorf("%s: error %v, want a Permanent cell_unknown", name, err)
		}
	}
}
