package simulator

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"agents.example/controlplane/emulators/simulator/realnode"
)

// Refuse returns why a node may not take a pod, whatever room it has, or the empty string if it may. The scheduler must
// ask for every node. Otherwise, the fault unschedulable has no effect, and a node that runs containers gets simulated
// pods. When the answer may have changed, the simulator annotates a node: schedulers then try their pods again.
func (s *Simulator) Refuse(pod *corev1.Pod, node string) (reason string) {
	if s.faults.of(pod.Namespace).Unschedulable() {
		return "node(s) had no room (simulated fault)"
	}
	switch containers, needed := node == realnode.Name, s.needsContainers(pod); {
	case containers && !needed:
		return "node(s) ran containers only"
	case !containers && needed:
		return "node(s) were simulated"
	}
	return ""
}

// maxExtenderRequest bounds a request of the scheduler: a pod and the names of all nodes.
const maxExtenderRequest = 16 << 20

// SchedulerExtender returns the handler that kube-scheduler asks for Refuse, as an extender that filters nodes by name.
func (s *Simulator) SchedulerExtender() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /filter", func(w http.ResponseWriter, r *http.Request) {
		var question extenderv1.ExtenderArgs
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxExtenderRequest)).Decode(&question)
		if err != nil || question.Pod == nil || question.NodeNames == nil {
			http.Error(w, "want a pod and the names of nodes", http.StatusBadRequest)
			return
		}
		accepted, refused := []string{}, extenderv1.FailedNodesMap{}
		for _, node := range *question.NodeNames {
			if reason := s.Refuse(question.Pod, node); reason != "" {
				refused[node] = reason
			} else {
				accepted = append(accepted, node)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{ // the scheduler asks again if it is gone
			NodeNames: &accepted, FailedAndUnresolvableNodes: refused,
		})
	})
	return mux
}

// wakeScheduler annotates a node. The scheduler retries an unschedulable pod only when an object that it watches
// changes, and it does not watch faults.
func (s *Simulator) wakeScheduler(ctx context.Context, node string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		domain + "/faults-changed": time.Now().Format(time.RFC3339Nano),
	}}})
	if err != nil {
		return err
	}
	_, err = s.client.Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	return ignoreGone(err)
}
