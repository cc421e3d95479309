package simulator

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"agents.example/controlplane/emulators/simulator/realnode"
)

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
