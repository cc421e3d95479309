//go:build linux

package cluster_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
)

// image is known to the cluster of TestCluster_RunsImagesAsProcesses.
const image = "example/test-agent:v1"

func TestCluster_RunsImagesAsProcesses(t *testing.T) {
	t.Parallel()
	options := cluster.Options{Dir: t.TempDir(), Images: map[string]string{image: buildAgent(t)}}
	running := clustertest.Start(t, options)
	c := connect(t, running.Kubeconfig)
	// a group ends before the cluster does
	t.Run("agents", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *processAgent){
			"environment is resolved as the pod says":       testEnvironment,
			"missing references hold up only the container": testMissingReference,
			"readiness follows the sidecar's probe":         testReadiness,
			"crash restarts one container":                  testCrash,
			"failed liveness restarts the container":        testLiveness,
			"replacement keeps the volume":                  testReplacement,
			"snapshots are of one moment":                   testSnapshotUnderWrites,
			"containers end before sidecars":                testOrder,
			"faults break and heal processes":               testProcessFaults,
			"logs are read through the API server":          testLogs,
			"logs are followed":                             testFollow,
			"commands run in containers":                    testExec,
			"ports are forwarded":                           testPortForward,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, newProcessAgent(t, c, strings.ReplaceAll(name, " ", "-")))
			})
		}
	})
	survivor := newProcessAgent(t, c, "survivor")
	survivor.create(t)
	address := survivor.address(t)
	if err := running.Close(); err != nil {
		t.Fatal(err)
	}
	if dial(t.Context(), address) == nil {
		t.Errorf("the process at %s outlives the cluster", address)
	}
	survivor.testCluster = connect(t, clustertest.Start(t, options).Kubeconfig)
	survivor.awaitPod(t, survivor.namespace, "running again", func(status *corev1.PodStatus) bool {
		agent := containerOf(status, "agent")
		return ready(status) && agent.RestartCount == 1 && agent.LastTerminationState.Terminated.Reason == "Unknown"
	})
}

// buildAgent builds the programs of the image and returns their directory.
func buildAgent(t *testing.T) string {
	t.Helper()
	clustertest.Require(t)
	dir := t.TempDir()
	output, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "entrypoint"),
		"./testdata/testagent").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, name := range []string{"front", "init"} {
		if err := os.Link(filepath.Join(dir, "entrypoint"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
