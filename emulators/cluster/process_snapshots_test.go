//go:build linux

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/remotecommand"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/emulators/kubeclient"
)

// testSnapshotUnderWrites takes snapshots while a program appends each number to one file and then to another. At any
// one moment, the first has as many as the second or one more; a large file between them makes a copy take long.
func testSnapshotUnderWrites(t *testing.T, a *processAgent) {
	class := &kubeclient.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: a.namespace}, Driver: "pd.csi.storage.gke.io", DeletionPolicy: "Delete",
	}
	if _, err := a.client.VolumeSnapshotClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	a.create(t)
	dir := a.environment(t)["DATA_DIR"]
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 64<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	a.write(t)
	for _, name := range []string{"one", "two", "three"} {
		content := a.snapshot(t, name)
		volume := a.claimFrom(t, name)
		first, second := lines(t, filepath.Join(filepath.Dir(dir), volume, "0-first")),
			lines(t, filepath.Join(filepath.Dir(dir), volume, "9-second"))
		if first == 0 || first != second && first != second+1 {
			t.Errorf("snapshot %s has %d lines of the first file and %d of the second, want no more than one between",
				name, first, second)
		}
		copied := filepath.Join(filepath.Dir(filepath.Dir(dir)), "snapshots", filepath.Base(*content.Status.Handle))
		if _, err := os.Stat(copied); err != nil {
			t.Error(err)
		}
		err := a.client.VolumeSnapshots(a.namespace).Delete(t.Context(), name, metav1.DeleteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		clustertest.Eventually(t, func(context.Context) error {
			if _, err := os.Stat(copied); !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("the copy of a deleted snapshot is still there: %w", err)
			}
			return nil
		})
	}
}

// write makes a program write to both files until the test ends.
func (a *processAgent) write(t *testing.T) {
	t.Helper()
	executor, err := remotecommand.NewSPDYExecutor(a.config, http.MethodPost, a.subresource("exec",
		&corev1.PodExecOptions{Container: "agent", Stdout: true, Command: []string{"sh", "-c", `cd "$DATA_DIR"; i=0
while :; do i=$((i+1)); echo $i >> 0-first; echo $i >> 9-second; done`}}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It ends with the test.
		_ = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &strings.Builder{}})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	second := filepath.Join(a.environment(t)["DATA_DIR"], "9-second")
	clustertest.Eventually(t, func(context.Context) error {
		_, err := os.Stat(second)
		return err
	})
}

// snapshot takes a snapshot of the agent's volume and waits until it is ready.
func (a *processAgent) snapshot(t *testing.T, name string) (content *kubeclient.VolumeSnapshotContent) {
	t.Helper()
	_, err := a.client.VolumeSnapshots(a.namespace).Create(t.Context(), &kubeclient.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: kubeclient.VolumeSnapshotSpec{
			Class: &a.namespace, Source: kubeclient.VolumeSnapshotSource{Claim: new("data-agent-0")},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, func(ctx context.Context) error {
		o, err := a.client.VolumeSnapshots(a.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if o.Status == nil || o.Status.Ready == nil || !*o.Status.Ready {
			return fmt.Errorf("the snapshot is not ready: %+v", o.Status)
		}
		content, err = a.client.VolumeSnapshotContents().Get(ctx, *o.Status.Content, metav1.GetOptions{})
		return err
	})
	return content
}

// claimFrom makes a claim from a snapshot, with a pod that uses it, and returns its volume.
func (a *processAgent) claimFrom(t *testing.T, snapshot string) (volume string) {
	t.Helper()
	claim := a.set.Spec.VolumeClaimTemplates[0].DeepCopy()
	claim.Name = snapshot
	claim.Spec.DataSource = &corev1.TypedLocalObjectReference{
		APIGroup: &kubeclient.SnapshotVersion.Group, Kind: "VolumeSnapshot", Name: snapshot,
	}
	_, err := a.client.PersistentVolumeClaims(a.namespace).Create(t.Context(), claim, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := podOf(corev1.PodSpec{
		Containers: []corev1.Container{{Name: "main", Image: "simulated"}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: snapshot},
		}}},
	})
	pod.Name = snapshot
	if _, err := a.client.Pods(a.namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, func(ctx context.Context) error {
		claim, err := a.client.PersistentVolumeClaims(a.namespace).Get(ctx, snapshot, metav1.GetOptions{})
		if err == nil && claim.Status.Phase != corev1.ClaimBound {
			err = fmt.Errorf("the claim is %s", claim.Status.Phase)
		}
		if err == nil {
			volume = claim.Spec.VolumeName
		}
		return err
	})
	return volume
}

// lines checks that a file has the numbers from 1 on, and returns how many.
func lines(t *testing.T, file string) (count int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if count++; strings.TrimSpace(line) != strconv.Itoa(count) {
			t.Fatalf("line %d of %s is %q", count, filepath.Base(file), line)
		}
	}
	return count
}
