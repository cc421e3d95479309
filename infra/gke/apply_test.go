//go:build unix

package gke

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

// The real API server refuses the objects.
func TestApply_ReportsRefusalsWithoutQuotingSecrets(t *testing.T) {
	t.Parallel()
	const canary = "canary-4f1c"
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testRuntimeInput(), agent.StageNamespace)

	t.Run("secret", func(t *testing.T) {
		t.Parallel()
		a, input := a, testRuntimeInput()
		a.Env = []agent.EnvVar{{Key: "NOT A KEY", SecretVersion: 1}}
		input.Secrets["NOT A KEY"] = []byte(canary)
		err := w.Apply(t.Context(), a, agent.StageSecrets, input)
		wantPermanent(t, err, agent.CodeObjectRejected)
		if !strings.Contains(err.Error(), "data[NOT A KEY]") {
			t.Errorf("error %v, want it to name the field", err)
		}
	})
	t.Run("too large", func(t *testing.T) {
		t.Parallel()
		a, input := a, testRuntimeInput()
		a.Env = []agent.EnvVar{{Key: "LARGE", SecretVersion: 1}}
		input.Secrets["LARGE"] = []byte(strings.Repeat(canary, 1<<17))
		err := w.Apply(t.Context(), a, agent.StageSecrets, input)
		wantPermanent(t, err, agent.CodeObjectRejected)
		if strings.Contains(err.Error(), canary) {
			t.Error("the error quotes the value")
		}
	})
	t.Run("plain value", func(t *testing.T) {
		t.Parallel()
		a := a
		a.Env = []agent.EnvVar{{Key: "NOT A KEY", Value: canary}}
		err := w.Apply(t.Context(), a, agent.StageIdentity, testRuntimeInput())
		wantPermanent(t, err, agent.CodeObjectRejected)
		if strings.Contains(err.Error(), canary) {
			t.Error("the error quotes the value")
		}
	})
	t.Run("namespace missing", func(t *testing.T) {
		t.Parallel()
		stranger := w.newAgent(t)
		for _, stage := range []agent.StageName{
			agent.StagePolicy, agent.StageIdentity, agent.StageSecrets, agent.StageStorage, agent.StageRuntime,
			agent.StageRoute,
		} {
			wantUnavailable(t, w.Apply(t.Context(), stranger, stage, testRuntimeInput()),
				provisioning.CodeNamespaceMissing)
		}
	})
}

func TestApply_ATerminatingNamespaceIsUnavailable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testRuntimeInput(), agent.StageNamespace, agent.StageRoute)
	services := w.admin.Services(a.Namespace())
	held, err := services.Get(t.Context(), agentName, metav1.GetOptions{})
	must(t, err)
	held.Finalizers = []string{"agents.example/test"}
	if _, err = services.Update(t.Context(), held, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	must(t, w.Delete(t.Context(), a))
	if err := w.Delete(t.Context(), a); err != nil {
		t.Errorf("deleting again: %v", err)
	}
	wantUnavailable(t, w.Apply(t.Context(), a, agent.StageNamespace, testRuntimeInput()), codeNamespaceTerminating)
	wantUnavailable(t, w.Apply(t.Context(), a, agent.StageIdentity, testRuntimeInput()), codeNamespaceTerminating)
	clustertest.Eventually(t, func(ctx context.Context) error {
		held, err := services.Get(ctx, agentName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		held.Finalizers = nil
		_, err = services.Update(ctx, held, metav1.UpdateOptions{})
		return err
	})
	w.awaitGone(t, a)
}

// A volume cannot follow a change of the storage class in the settings.
func TestApply_KeepsTheStorageClassOfAnExistingVolume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.readyAgent(t)
	claims := w.admin.PersistentVolumeClaims(a.Namespace())
	before, err := claims.Get(t.Context(), volumeName, metav1.GetOptions{})
	must(t, err)
	later := newWorld(t, func(s *Settings) { s.StorageClass = "another" })
	smaller := a
	smaller.Plan = "hobby"
	later.apply(t, smaller, testRuntimeInput(), agent.StageStorage)
	after, err := claims.Get(t.Context(), volumeName, metav1.GetOptions{})
	must(t, err)
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
		t.Errorf("the claim changed:\n%s", diff)
	}
}

func TestApply_RestoresOurFieldsAndKeepsForeignOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testRuntimeInput(), agent.StageNamespace, agent.StagePolicy)
	quotas := w.admin.ResourceQuotas(a.Namespace())
	other := `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"labels":{"added":"yes"}},"spec":{"hard":{"pods":"50"}}}`
	_, err := quotas.Patch(t.Context(), agentName, types.ApplyPatchType, []byte(other),
		metav1.PatchOptions{FieldManager: "another-manager", Force: new(true)})
	must(t, err)
	w.apply(t, a, testRuntimeInput(), agent.StagePolicy)
	quota, err := quotas.Get(t.Context(), agentName, metav1.GetOptions{})
	must(t, err)
	if pods := quota.Spec.Hard[corev1.ResourcePods]; pods.Value() != quotaPods || quota.Labels["added"] != "yes" {
		t.Errorf("the quota has %s pods and labels %v, want %d pods and the label that was added", pods.String(),
			quota.Labels, quotaPods)
	}
}

// The API server refuses objects until it has computed a new quota.
func TestApply_RetriesWhileTheQuotaIsNotComputed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testRuntimeInput(), agent.StageNamespace)
	var refused atomic.Int32
	w.calls.breaks = func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		if r.Method != http.MethodPatch || refused.Add(1) > 3 {
			return nil, nil
		}
		return answer(http.StatusForbidden, metav1.StatusReasonForbidden,
			`persistentvolumeclaims "data" is forbidden: status unknown for quota: agent, resources: persistentvolumeclaims`), nil
	}
	w.apply(t, a, testRuntimeInput(), agent.StageStorage)
	if refused.Load() != 4 {
		t.Errorf("%d attempts, want 4", refused.Load())
	}
}

// For a moment, the API server goes by the limits of the former plan.
func TestApply_RetriesWhileARaisedQuotaDoesNotCount(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		refusals int
		want     string
	}{
		"for a moment":     {refusals: 3},
		"there is no room": {refusals: 1000, want: codeQuotaExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				refused, begun := 0, time.Now()
				c := answering(t, func() (*http.Response, error) {
					if refused++; refused > row.refusals {
						return answerObject(metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{
							APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata",
						}})
					}
					return answer(http.StatusForbidden, metav1.StatusReasonForbidden, "exceeded quota: agent, "+
						"requested: requests.storage=15Gi, used: requests.storage=5Gi, limited: "+
						"requests.storage=15Gi"), nil
				})
				err := c.Apply(t.Context(), testAgent(), agent.StageStorage, testRuntimeInput())
				if took := time.Since(begun); fault.Code(err) != row.want || took > callTimeout/2 {
					t.Errorf("after %s: error %v, want code %q well within the time of a call", took, err, row.want)
				}
			})
		})
	}
}

// The API server need not send, and the worker need not decode, the rest of what was just applied.
func TestApply_AsksForMetadataOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	var requests, whole atomic.Int32
	w.calls.breaks = func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		requests.Add(1)
		for accepted := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
			if !strings.Contains(accepted, "as=PartialObjectMetadata") && accepted != "application/json" {
				whole.Add(1)
			}
		}
		return nil, nil
	}
	w.apply(t, a, testRuntimeInput())
	if requests.Load() == 0 || whole.Load() > 0 {
		t.Errorf("%d of %d requests ask for whole objects, want none", whole.Load(), requests.Load())
	}
}
