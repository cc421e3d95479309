//go:build unix

package gke

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
)

// resized returns an agent that ran, on another plan.
func resized(a agent.Agent, to plan.ID) agent.Agent {
	a = a.Clone()
	a.Status, a.LastReadyIsolation = agent.Running, agent.Plain
	a.Plan = to
	a.Generation++
	return a
}

func TestApply_GrowsTheVolumeOfARunningAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	a.Plan = plan.Starter
	w.apply(t, a, testRuntimeInput())
	w.awaitReady(t, a)
	claims := w.admin.PersistentVolumeClaims(a.Namespace())
	before, err := claims.Get(t.Context(), volumeName, metav1.GetOptions{})
	must(t, err)
	a = resized(a, plan.Startup)
	w.apply(t, a, testRuntimeInput())
	w.awaitReady(t, a)
	p, err := plan.Get(a.Plan)
	must(t, err)
	clustertest.Eventually(t, func(ctx context.Context) error {
		claim, err := claims.Get(ctx, volumeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		asked, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
		if claim.UID != before.UID || claim.Spec.VolumeName != before.Spec.VolumeName ||
			asked.Value() != p.StorageBytes() || has.Cmp(asked) != 0 {
			return fmt.Errorf("the claim of volume %s asks for %s and has %s, want volume %s with %d GiB",
				claim.Spec.VolumeName, asked.String(), has.String(), before.Spec.VolumeName, p.StorageGiB)
		}
		return nil
	})
}

// A class without allowVolumeExpansion is an operator's mistake. Waiting does not repair it.
func TestApply_AVolumeThatCannotGrowIsPermanent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	class, err := w.admin.StorageClasses().Get(t.Context(), "standard-rwo", metav1.GetOptions{})
	must(t, err)
	fixed := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fixed-size"}, Provisioner: class.Provisioner,
		VolumeBindingMode: class.VolumeBindingMode, ReclaimPolicy: class.ReclaimPolicy,
	}
	if _, err := w.admin.StorageClasses().Create(t.Context(), fixed, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	w = newWorld(t, func(s *Settings) { s.StorageClass = fixed.Name })
	a := w.newAgent(t)
	a.Plan = plan.Starter
	w.apply(t, a, testRuntimeInput())
	w.awaitReady(t, a)
	a = resized(a, plan.Startup)
	w.apply(t, a, testRuntimeInput(), agent.StagePolicy)
	wantPermanent(t, w.Apply(t.Context(), a, agent.StageStorage, testRuntimeInput()), codeVolumeCannotGrow)
}

// A person deletes the claim between the look at it and the write.
func TestApply_MakesNoVolumeThatIsDeletedInBetween(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	a.Plan = plan.Starter
	w.apply(t, a, testRuntimeInput(), agent.StageNamespace, agent.StagePolicy, agent.StageStorage)
	claims := w.admin.PersistentVolumeClaims(a.Namespace())
	w.calls.breaks = func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		if r.Method != http.MethodPatch {
			return nil, nil
		}
		if err := claims.Delete(r.Context(), volumeName, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		awaitAbsent(t, claims.Get, volumeName)
		return nil, nil
	}
	a = resized(a, plan.Startup)
	wantUnavailable(t, w.Apply(t.Context(), a, agent.StageStorage, testRuntimeInput()), codeClusterUnavailable)
	w.calls.breaks = nil
	wantUnavailable(t, w.Apply(t.Context(), a, agent.StageStorage, testRuntimeInput()),
		provisioning.CodeNamespaceMissing)
	if _, err := claims.Get(t.Context(), volumeName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the claim was made again (%v)", err)
	}
}
