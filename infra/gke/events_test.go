//go:build unix

package gke

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/shared/agent"
)

// If the API server refuses the StatefulSet's pods, only events say so.
func TestCheckReady_ExplainsRefusedPods(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, template, code string
		permanent            bool
	}{
		{name: "no runtime class", template: `{"runtimeClassName":"kata"}`, code: codeNoSandbox, permanent: true},
		{name: "pod security", template: `{"hostNetwork":true}`, code: codeRejected, permanent: true},
		{name: "quota", template: `{"terminationGracePeriodSeconds":30}`, code: codeQuotaExceeded, permanent: false},
		{
			name: "no service account", template: `{"serviceAccountName":"missing"}`, code: codeRejected,
			permanent: false,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.newAgent(t)
			stopped := a
			stopped.Status = agent.Stopped
			w.apply(t, stopped, testRuntimeInput())
			if test.code == codeQuotaExceeded {
				w.fill(t, a)
			}
			// As if the templates of this package were wrong.
			patch := fmt.Sprintf(`{"spec":{"replicas":1,"template":{"spec":%s}}}`, test.template)
			sets := w.admin.StatefulSets(a.Namespace())
			if _, err := sets.Patch(t.Context(), agentName, types.StrategicMergePatchType, []byte(patch),
				metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			w.eventuallyFails(t, a, test.code, test.permanent, "")
		})
	}
}

// fill leaves no room in the namespace's quota. Pods that use it up would not do: the controller that counts them may
// count too few for a moment.
func (w *world) fill(t *testing.T, a agent.Agent) {
	t.Helper()
	quotas := w.admin.ResourceQuotas(a.Namespace())
	none := []byte(`{"spec":{"hard":{"pods":"0"}}}`)
	if _, err := quotas.Patch(t.Context(), agentName, types.StrategicMergePatchType, none,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, func(ctx context.Context) error {
		quota, err := quotas.Get(ctx, agentName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pods, ok := quota.Status.Hard[corev1.ResourcePods]; !ok || !pods.IsZero() {
			return fmt.Errorf("the quota still has room for %s pods", pods.String())
		}
		return nil
	})
}

func TestCheckReady_IgnoresEventsBeforeTheLastChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	stopped := a
	stopped.Status = agent.Stopped
	w.apply(t, stopped, testRuntimeInput())
	set, err := w.admin.StatefulSets(a.Namespace()).Get(t.Context(), agentName, metav1.GetOptions{})
	must(t, err)
	old := metav1.NewTime(set.CreationTimestamp.Add(-time.Minute))
	for i, at := range []metav1.Time{old, metav1.Now()} {
		event := &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("event-%d", i)},
			InvolvedObject: corev1.ObjectReference{
				Kind: "StatefulSet", Namespace: a.Namespace(), Name: agentName,
				UID: set.UID,
			},
			Type: corev1.EventTypeWarning, Reason: "FailedCreate", FirstTimestamp: at, LastTimestamp: at,
			Message: `create Pod agent-0 in StatefulSet agent failed error: pods "agent-0" is forbidden: pod rejected: RuntimeClass "gvisor" not found`,
		}
		if _, err := w.admin.Events(a.Namespace()).Create(t.Context(), event,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		code, permanent := codeTimeout, false
		if at != old {
			code, permanent = codeNoSandbox, true
		}
		clustertest.Eventually(t, func(ctx context.Context) error {
			w.calls.take()
			err := w.CheckReady(ctx, a)
			if reads, _ := w.calls.take(); reads < 3 { // the workload is too young
				return fmt.Errorf("%d reads, want 3 with the events: %w", reads, err)
			}
			wantFailure(t, err, code, permanent)
			return nil
		})
	}
}
