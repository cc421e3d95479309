package simulator

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestPod_HasTheStatusThatItsKubeletReportedLast reads a pod before the watch has shown its new status: a client that
// has seen the status in the API asks for logs immediately.
func TestPod_HasTheStatusThatItsKubeletReportedLast(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "agent-0", Namespace: "n", UID: "first"}}
	s := newSimulator(t, "", pod)
	watched := s.watched.pods.GetIndexer()
	if err := s.writeStatus(t.Context(), pod, corev1.PodStatus{Phase: corev1.PodRunning}); err != nil {
		t.Fatal(err)
	}
	checkPhase(t, s, corev1.PodRunning)
	replacement := pod.DeepCopy()
	replacement.UID = "second"
	if err := watched.Update(replacement); err != nil {
		t.Fatal(err)
	}
	checkPhase(t, s, "")
}

func checkPhase(t *testing.T, s *Simulator, want corev1.PodPhase) {
	t.Helper()
	got, err := s.Pod(types.NamespacedName{Namespace: "n", Name: "agent-0"})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status.Phase != want {
		t.Errorf("phase = %q, want %q", got.Status.Phase, want)
	}
}
