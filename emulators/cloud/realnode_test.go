package cloud_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/node"
)

// TestStoryOnARealNode tests a cloud whose pods are containers behind network policies. Its agents can report how they
// run. A real API server works all the time, so no other cloud runs next to this one.
func TestStoryOnARealNode(t *testing.T) {
	d := startOnNode(t)
	d.tell(t, []storyTest{
		{"agent is created, runs and is deleted", testAgentLifecycle},
		{"agent pauses, stops and starts again", testPauseAndStop},
		{"agent is measured", testMetrics},
		{"dashboard opens by a one-time link", testDashboardLink},
		{"an idle agent sleeps and is woken", testSleep},
		{"credentials are rotated", testCredentialRotation},
		{"secrets are set, delivered and deleted", testSecretLifecycle},
		{"secrets of a stopped agent wait for its start", testSecretsOfStoppedAgent},
		{"router and agents run on the node", testPlaces},
		{"twenty agents run concurrently", testTwentyAgents},
		{"an image without a shell runs its own programs", testNoShell},

		{"agent in runc reports how it runs", func(t *testing.T, d deployment) { testProbe(t, d, "runc") }},
		{"agent in gVisor reports how it runs", func(t *testing.T, d deployment) { testProbe(t, d, "gVisor") }},
		{"agent in runc reaches what it may", func(t *testing.T, d deployment) { testWaysOut(t, d, "runc") }},
		{"agent in gVisor reaches what it may", func(t *testing.T, d deployment) { testWaysOut(t, d, "gVisor") }},
		{"a database survives snapshots in runc", testDatabase},
		{"a database survives snapshots in gVisor", testSandboxedDatabase},
		{"a release reaches agents, and stops at a broken build", testReleases},
		{"agent that crashes ends in error", testRealCrash},
		{"agent whose image is gone ends in error", testRealImageGone},
		{"agent that is never ready ends at its deadline", testRealUnready},
	})
}

// testPlaces checks that the pods are on the real node. The others of this test would pass on simulated nodes as well.
func testPlaces(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "placed", "resource_plan": "hobby"}`)
	d.awaitStatus(t, id, "running")
	for namespace, want := range map[string]int{"agent-" + id: 1, "agent-gateway": 2} { // router and gate
		pods, err := d.cluster.Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(pods.Items) != want {
			t.Fatalf("pods of %s = %v, %v; want %d", namespace, pods, err, want)
		}
		checkEqual(t, "node of "+namespace, pods.Items[0].Spec.NodeName, node.Name)
	}
}

func TestStart_RefusesARealNodeInAnotherCluster(t *testing.T) {
	t.Parallel()
	for given, o := range map[string]cloud.Options{
		"a kubeconfig": {Dir: t.TempDir(), Node: &cloud.NodeOptions{}, Kubeconfig: "config"},
		"binaries":     {Dir: t.TempDir(), Node: &cloud.NodeOptions{}, Binaries: "bin"},
	} {
		if _, err := cloud.Start(t.Context(), o); err == nil {
			t.Errorf("a cloud with a real node and %s started, want an error", given)
		}
	}
}
