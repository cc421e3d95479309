package simulator

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"agents.example/controlplane/emulators/kubernetes/realnode"
)

// schedulerFilter makes the real scheduler find no node for pods of a namespace with the fault unschedulable, and tell
// simulated nodes from the one that runs containers.
type schedulerFilter struct{ simulator *Simulator }

var (
	_ fwk.FilterPlugin      = schedulerFilter{}
	_ fwk.EnqueueExtensions = schedulerFilter{}
)

const schedulerFilterName = "SimulatedNodes"

// SchedulerFilters returns the plugins for the scheduler. Without them, the fault unschedulable has no effect, and a
// node that runs containers gets simulated pods.
func (s *Simulator) SchedulerFilters() schedulerruntime.Registry {
	return schedulerruntime.Registry{schedulerFilterName: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin,
		error,
	) {
		return schedulerFilter{s}, nil
	}}
}

// Name returns the plugin's name in the scheduler's configuration.
func (schedulerFilter) Name() string { return schedulerFilterName }

// Filter refuses nodes for reasons that preemption cannot resolve.
func (f schedulerFilter) Filter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	if f.simulator.faults.of(pod.Namespace).Unschedulable() {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) had no room (simulated fault)")
	}
	switch containers, needed := info.Node().Name == realnode.Name, f.simulator.needsContainers(pod); {
	case containers && !needed:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) ran containers only")
	case !containers && needed:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) were simulated")
	}
	return nil
}

// EventsToRegister declares that only wakeScheduler and a new node can change the result of Filter.
func (schedulerFilter) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{
		Resource:   fwk.Node,
		ActionType: fwk.Add | fwk.UpdateNodeAnnotation,
	}}}, nil
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
	_, err = s.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	return ignoreGone(err)
}
