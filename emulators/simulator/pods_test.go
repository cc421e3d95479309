package simulator

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"agents.example/controlplane/emulators/simulator/realnode"
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

func TestSchedulerExtender_AnswersForEachNode(t *testing.T) {
	t.Parallel()
	s := newSimulator(t, "socket")
	nodes := []string{"node-0", realnode.Name}
	question, err := json.Marshal(extenderv1.ExtenderArgs{Pod: nodePod("", nil), NodeNames: &nodes})
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	s.SchedulerExtender().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/filter",
		bytes.NewReader(question)))
	var got extenderv1.ExtenderFilterResult
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
		t.Fatalf("%d: %v", answer.Code, err)
	}
	if got.NodeNames == nil || !slices.Equal(*got.NodeNames, []string{realnode.Name}) {
		t.Errorf("accepted nodes = %v, want only %s", got.NodeNames, realnode.Name)
	}
	if reason := got.FailedAndUnresolvableNodes["node-0"]; reason != "node(s) were simulated" {
		t.Errorf("reason against node-0 = %q, want that it is simulated", reason)
	}
	refused := httptest.NewRecorder()
	s.SchedulerExtender().ServeHTTP(refused, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/filter",
		bytes.NewReader([]byte("{}"))))
	if refused.Code != http.StatusBadRequest {
		t.Errorf("answer to a question without a pod: %d, want %d", refused.Code, http.StatusBadRequest)
	}
}
