package cloud_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The chapters about snapshots: one of a stopped agent, its restore, and its deletion.

// snapshotViews are the snapshots of an agent that clients see.
type snapshotViews []struct{ ID, Cause, Status string }

func (n *lane) snapshotViews(t *testing.T, id string) (all snapshotViews) {
	t.Helper()
	a := n.must(t, http.StatusOK, http.MethodGet, "/api/v1/agents/"+id+"/snapshots", "")
	if err := json.Unmarshal([]byte(a.text), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// status is that of the snapshot with a cause; empty if there is none.
func (all snapshotViews) status(cause string) string {
	for _, s := range all {
		if s.Cause == cause {
			return s.Status
		}
	}
	return ""
}

// awaitSwept waits until a condition holds. Sweeps take the place of time: workers look again after minutes.
func (n *lane) awaitSwept(t *testing.T, id, what string, holds func(answer) bool) {
	t.Helper()
	n.await(t, id, what, func(a answer) bool {
		done := holds(a)
		if !done && n.idle() {
			n.sweep(t)
		}
		return done
	})
}

func isServing(a answer) bool {
	return a.body["status"] == "running" && a.body["dashboard_warming"] == false
}

func awaitSnapshot(t *testing.T, n *lane, id string) {
	t.Helper()
	n.awaitSwept(t, id, "running with a snapshot", func(a answer) bool {
		return n.snapshotViews(t, id).status("user") == "ready" && isServing(a)
	})
}

// inCluster lists what the cluster has of an agent's volumes.
func (n *lane) inCluster(t *testing.T, id string) (claims, snapshots, contents []string) {
	t.Helper()
	c, err := n.cluster.PersistentVolumeClaims("agent-"+id).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Items {
		claims = append(claims, c.Items[i].Name)
	}
	s, err := n.cluster.VolumeSnapshots("agent-"+id).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Items {
		snapshots = append(snapshots, s.Items[i].Name)
	}
	all, err := n.cluster.VolumeSnapshotContents().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		if all.Items[i].Spec.Snapshot.Namespace == "agent-"+id {
			contents = append(contents, all.Items[i].Name)
		}
	}
	return claims, snapshots, contents
}

// checkVolumes checks the claims of an agent, and how many snapshots it has: as many as its record.
func (n *lane) checkVolumes(t *testing.T, id string, wantClaims []string, wantSnapshots int) {
	t.Helper()
	claims, snapshots, contents := n.inCluster(t, id)
	if !slices.Equal(claims, wantClaims) || len(snapshots) != wantSnapshots || len(contents) != wantSnapshots {
		t.Errorf("claims %q, snapshots %q and contents %q, want the claims %q and %d snapshots", claims, snapshots,
			contents, wantClaims, wantSnapshots)
	}
	checkEqual(t, "snapshots of the record", len(n.snapshotViews(t, id)), wantSnapshots)
	checkEqual(t, "pods", n.countPods(t, id), 1)
}

func checkSnapshot(t *testing.T, n *lane, id string, _ []string) {
	t.Helper()
	views := n.snapshotViews(t, id)
	n.snapshot = views[0].ID
	n.checkVolumes(t, id, []string{"data"}, 1)
}

func awaitRestore(t *testing.T, n *lane, id string) {
	t.Helper()
	n.awaitSwept(t, id, "restored", func(a answer) bool {
		claims, _, _ := n.inCluster(t, id)
		return isServing(a) && n.snapshotViews(t, id).status("restore") == "ready" &&
			slices.Equal(claims, []string{"data-1"})
	})
}

func checkRestore(t *testing.T, n *lane, id string, _ []string) {
	t.Helper()
	n.checkVolumes(t, id, []string{"data-1"}, 2)
	pod, err := n.cluster.Pods("agent-"+id).Get(t.Context(), "agent-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "the pod's volume", pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName, "data-1")
}

func awaitUnsnapshot(t *testing.T, n *lane, id string) {
	t.Helper()
	n.awaitSwept(t, id, "without the snapshot", func(answer) bool {
		return n.snapshotViews(t, id).status("user") == ""
	})
}

func checkUnsnapshot(t *testing.T, n *lane, id string, told []string) {
	t.Helper()
	claims, left := []string{"data"}, 0
	if slices.Contains(told, "restore") {
		claims, left = []string{"data-1"}, 1
	}
	n.checkVolumes(t, id, claims, left)
}

// checkNoContents checks that a deleted agent has left no data in the storage of snapshots.
func (n *lane) checkNoContents(t *testing.T, id string) {
	t.Helper()
	if _, _, contents := n.inCluster(t, id); len(contents) > 0 {
		t.Errorf("the agent is gone, but its snapshots are not: %s", strings.Join(contents, ", "))
	}
}
