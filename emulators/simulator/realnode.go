package simulator

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/simulator/kubelet"
	"agents.example/controlplane/emulators/simulator/realnode"
)

// socketPoll is how often the simulator tries the socket of the node that runs containers. No connection stays open
// that could show its end, and the node's lease would take 40 s to show it.
const socketPoll = time.Second

// needsContainers reports whether a pod belongs on the node that runs containers: all pods do, except those that this
// process simulates or runs as processes.
func (s *Simulator) needsContainers(pod *corev1.Pod) bool {
	return s.options.NodeSocket != "" && pod.Namespace != metav1.NamespaceSystem &&
		s.faults.of(pod.Namespace) == kubelet.Fault{} && !s.runtime.Runs(pod)
}

// realNodeRuns reports whether the node that runs containers accepts connections.
func (s *Simulator) realNodeRuns(ctx context.Context) bool {
	if s.options.NodeSocket == "" {
		return false
	}
	connection, err := new(net.Dialer).DialContext(ctx, "unix", s.options.NodeSocket)
	if err != nil {
		// Any other failure, such as a full queue of connections, is one of a node that runs.
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED)
	}
	_ = connection.Close()
	return true
}

// watchRealNode processes the node and its pods when the node's socket appears or disappears, until ctx ends.
func (s *Simulator) watchRealNode(ctx context.Context, nodes *queue) {
	tick := time.NewTicker(socketPoll)
	defer tick.Stop()
	for ran := true; ; {
		if runs := s.realNodeRuns(ctx); runs != ran {
			ran = runs
			nodes.keys.Add(realnode.Name)
			for _, key := range s.podKeys(metav1.NamespaceAll) {
				s.podQueue.keys.Add(key)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// syncRealNode does what node-lifecycle-controller does for a node: it makes the condition Ready unknown when the node
// is gone, and keeps pods away with a taint as long as the node is not ready.
func (s *Simulator) syncRealNode(ctx context.Context, name string) error {
	node, err := s.client.Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return ignoreGone(err)
	}
	i := slices.IndexFunc(node.Status.Conditions,
		func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if i >= 0 && node.Status.Conditions[i].Status != corev1.ConditionUnknown && !s.realNodeRuns(ctx) {
		c := &node.Status.Conditions[i]
		c.Status, c.Reason, c.LastTransitionTime = corev1.ConditionUnknown, "NodeStatusUnknown", metav1.Now()
		c.Message = "Kubelet stopped posting node status."
		node, err = s.client.Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		if err != nil {
			return err // a conflict, too: the socket's next change may be far
		}
	}
	ready := i >= 0 && node.Status.Conditions[i].Status == corev1.ConditionTrue
	notReady := func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady }
	switch tainted := slices.ContainsFunc(node.Spec.Taints, notReady); {
	case ready && tainted:
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, notReady)
	case !ready && !tainted:
		node.Spec.Taints = append(node.Spec.Taints,
			corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	default:
		return nil
	}
	_, err = s.client.Nodes().Update(ctx, node, metav1.UpdateOptions{})
	return err
}

// syncContainers leaves a pod of the node that runs containers to its kubelet, unless the pod does not belong there,
// or the node is gone, whose containers end with it.
func (s *Simulator) syncContainers(ctx context.Context, pod *corev1.Pod) error {
	switch {
	case pod.DeletionTimestamp == nil && !s.needsContainers(pod):
		return s.evict(ctx, pod)
	case s.realNodeRuns(ctx):
		return nil
	case pod.DeletionTimestamp != nil:
		return s.remove(ctx, pod)
	}
	pod = pod.DeepCopy()
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			c.Status, c.LastTransitionTime = corev1.ConditionFalse, metav1.Now()
			_, err := s.client.Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
			return ignoreGone(err)
		}
	}
	return nil
}

// evict deletes a pod that belongs on another node; its controller creates it again.
func (s *Simulator) evict(ctx context.Context, pod *corev1.Pod) error {
	return ignoreGone(s.client.Pods(pod.Namespace).Delete(ctx, pod.Name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}))
}
