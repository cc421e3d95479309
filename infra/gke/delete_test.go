//go:build unix

package gke

import (
	"context"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

func TestDelete_RemovesNamespaceAndVolume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.readyAgent(t)
	volume := w.volume(t, a)
	if gone, err := w.CheckGone(t.Context(), a); gone != (provisioning.Gone{}) || err != nil {
		t.Errorf("CheckGone of a running agent = %+v, %v, want nothing gone", gone, err)
	}
	for range 2 {
		must(t, w.Delete(t.Context(), a))
		w.awaitGone(t, a)
		if _, err := w.admin.Namespaces().Get(t.Context(), a.Namespace(),
			metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("namespace: error %v, want it gone", err)
		}
		if _, err := w.admin.PersistentVolumes().Get(t.Context(), volume,
			metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("volume: error %v, want it gone", err)
		}
	}
}

func (w *world) volume(t *testing.T, a agent.Agent) string {
	t.Helper()
	claim, err := w.admin.PersistentVolumeClaims(a.Namespace()).Get(t.Context(), volumeName,
		metav1.GetOptions{})
	if err != nil || claim.Spec.VolumeName == "" {
		t.Fatalf("the claim is bound to %q (%v)", claim.Spec.VolumeName, err)
	}
	return claim.Spec.VolumeName
}

func TestCheckGone_ReportsAVolumeThatIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.readyAgent(t)
	volumes, name := w.admin.PersistentVolumes(), w.volume(t, a)
	finalizers := func(change func([]string) []string) {
		t.Helper()
		clustertest.Eventually(t, func(ctx context.Context) error {
			v, err := volumes.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			v.Finalizers = change(v.Finalizers)
			_, err = volumes.Update(ctx, v, metav1.UpdateOptions{})
			return err
		})
	}
	finalizers(func(f []string) []string { return append(f, "agents.example/test") })
	must(t, w.Delete(t.Context(), a))
	awaitAbsent(t, w.admin.Namespaces().Get, a.Namespace())
	if gone, err := w.CheckGone(t.Context(), a); gone.Volume || !gone.Namespace || err != nil {
		t.Errorf("CheckGone while the volume exists = %+v, %v, want the namespace gone and the volume not", gone, err)
	}
	finalizers(func([]string) []string { return nil })
	w.awaitGone(t, a)
}

// TestCheckGone_GivesADeletionItsTimes needs no cluster: the test answers for the API server. A deletion learns from
// each look.
func TestCheckGone_GivesADeletionItsTimes(t *testing.T) {
	t.Parallel()
	a, s := testAgent(), testSettings()
	s.Cells = []Cell{{Name: a.Cell, Kubeconfig: "testdata/kubeconfig.yaml"}}
	c := testClusters(t, s)
	var namespace, volumes, contents responder
	c.wrapTransports(func(http.RoundTripper) http.RoundTripper {
		return way{calls: &calls{breaks: func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
			switch r.URL.Path {
			case "/api/v1/persistentvolumes":
				return volumes()
			case "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents":
				return contents()
			default:
				return namespace()
			}
		}}}
	})
	at := func(minute int) time.Time { return time.Date(2026, 1, 15, 9, minute, 0, 0, time.UTC) }
	exists := func() (*http.Response, error) {
		return answerObject(corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}})
	}
	missing := func() (*http.Response, error) {
		return answerStatus(apierrors.NewNotFound(corev1.Resource("namespaces"), a.Namespace()).Status())
	}
	fails := func() (*http.Response, error) {
		return answer(http.StatusInternalServerError, metav1.StatusReasonInternalError, "no"), nil
	}
	for i, look := range []struct {
		name                         string
		namespace, volumes, contents responder
		wantErr                      bool
		want                         agent.Deletion
	}{
		{name: "the namespace is terminating", namespace: exists},
		{name: "volumes cannot be listed", namespace: missing, volumes: fails, wantErr: true},
		{
			name: "its volume and a snapshot are left", namespace: missing, volumes: volumeOf(a.Namespace()),
			contents: contentsLeft(1), want: agent.Deletion{NamespaceGoneAt: at(2)},
		},
		{
			name: "the namespace cannot be read", namespace: fails, wantErr: true,
			want: agent.Deletion{NamespaceGoneAt: at(2)},
		},
		{
			name: "snapshots cannot be listed", namespace: missing, volumes: volumeOf("another"), contents: fails,
			wantErr: true, want: agent.Deletion{NamespaceGoneAt: at(2)},
		},
		{
			name: "only another agent's volume and a snapshot are left", namespace: missing,
			volumes: volumeOf("another"), contents: contentsLeft(1),
			want: agent.Deletion{NamespaceGoneAt: at(2), VolumeGoneAt: at(5)},
		},
		{
			name: "only another agent's volume is left", namespace: missing, volumes: volumeOf("another"),
			contents: contentsLeft(0),
			want:     agent.Deletion{NamespaceGoneAt: at(2), VolumeGoneAt: at(5), SnapshotsGoneAt: at(6)},
		},
		{name: "a slower worker made the namespace again", namespace: exists},
	} {
		namespace, volumes, contents = look.namespace, look.volumes, look.contents
		gone, err := c.CheckGone(t.Context(), a)
		if (err != nil) != look.wantErr {
			t.Errorf("%s: error %v, want one: %t", look.name, err, look.wantErr)
		}
		if err == nil {
			a.Learn(agent.ClusterDeletionSeen{
				NamespaceGone: gone.Namespace, VolumeGone: gone.Volume, SnapshotsGone: gone.Snapshots, At: at(i),
			})
		}
		if a.Deletion != look.want {
			t.Errorf("%s: deletion %+v, want %+v", look.name, a.Deletion, look.want)
		}
	}
}

// contentsLeft answers with the metadata of contents of snapshots.
func contentsLeft(n int) responder {
	list := metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
		Items:    make([]metav1.PartialObjectMetadata, n),
	}
	return func() (*http.Response, error) { return answerObject(list) }
}

// responder answers a request instead of the API server.
type responder func() (*http.Response, error)

// volumeOf answers with a volume that was claimed in a namespace.
func volumeOf(namespace string) responder {
	list := corev1.PersistentVolumeList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeList"},
		Items:    make([]corev1.PersistentVolume, 1),
	}
	list.Items[0].Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: volumeName}
	return func() (*http.Response, error) { return answerObject(list) }
}

// A name alone does not make a namespace ours.
func TestDelete_RefusesForeignNamespaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, labels := range map[string]map[string]string{
		"no labels":       nil,
		"another manager": {labelManagedBy: "helm"},
		"another agent":   {labelManagedBy: fieldManager, labelAgent: testID},
	} {
		a := w.newAgent(t)
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.Namespace(), Labels: labels}}
		made, err := w.admin.Namespaces().Create(t.Context(), n, metav1.CreateOptions{})
		must(t, err)
		wantPermanent(t, w.Delete(t.Context(), a), "namespace_not_owned")
		wantPermanent(t, w.DeleteNamespace(t.Context(),
			provisioning.Placement{Cell: "local", AgentID: a.ID, UID: string(made.UID)}), "namespace_not_owned")
		there, err := w.admin.Namespaces().Get(t.Context(), a.Namespace(), metav1.GetOptions{})
		if err != nil || there.DeletionTimestamp != nil {
			t.Errorf("%s: the namespace is deleted (%v)", name, err)
		}
		if found := w.findPlacement(t, a); found != nil {
			t.Errorf("%s: Namespaces lists the namespace", name)
		}
	}
}
