package controllers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"agents.example/controlplane/emulators/kubernetesemu/admission"
	"agents.example/controlplane/emulators/kubernetesemu/store"
)

const failedScheduling = "FailedScheduling"

// nodes has what the scheduler knows of nodes. The store's lock guards it.
type nodes struct {
	requested map[string]corev1.ResourceList // by node
	pending   map[store.Key]bool             // pods that found no node
}

func newNodes() nodes {
	return nodes{requested: map[string]corev1.ResourceList{}, pending: map[store.Key]bool{}}
}

func (n *nodes) observeNode(c store.Change) {
	if c.After == nil {
		delete(n.requested, c.Key.Name)
	}
}

// observePod adds what a pod requests to its node.
func (n *nodes) observePod(c store.Change) {
	if pod, ok := c.Before.(*corev1.Pod); ok {
		n.count(pod, (*resource.Quantity).Sub)
	}
	pod, ok := c.After.(*corev1.Pod)
	if ok {
		n.count(pod, (*resource.Quantity).Add)
	}
	if !ok || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		delete(n.pending, c.Key)
	}
}

func (n *nodes) count(pod *corev1.Pod, change func(*resource.Quantity, resource.Quantity)) {
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return
	}
	sum := n.requested[pod.Spec.NodeName]
	if sum == nil {
		sum = corev1.ResourceList{}
		n.requested[pod.Spec.NodeName] = sum
	}
	for name, quantity := range requestsOf(pod) {
		total := sum[name].DeepCopy()
		change(&total, quantity)
		sum[name] = total
	}
}

func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	requests := admission.PodRequests(&pod.Spec)
	requests[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return requests
}

// schedule assigns a pod to the node with the most room, after its claims have volumes. It considers what pods request,
// node selectors and taints, and no affinity, spreading or preemption.
func (c *Controllers) schedule(key store.Key) error {
	pod, ok := read[*corev1.Pod](c, key)
	if !ok || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || len(pod.Spec.SchedulingGates) > 0 {
		return nil
	}
	c.wait(key) // before looking at what may change in between
	reason := c.missingClaim(pod)
	node := ""
	if reason == "" {
		node, reason = c.choose(pod)
	}
	if reason != "" {
		return c.postpone(pod, reason)
	}
	if bound, err := c.claimsBound(pod, node); err != nil || !bound {
		return err // their volumes come back here
	}
	q := c.as(scheduler, c.catalog.Core("Pod"), key, "")
	q.User.Username = "system:kube-scheduler"
	if err := c.registry.Bind(q, node); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// wait makes the scheduler look at a pod again when claims, nodes or other pods change.
func (c *Controllers) wait(key store.Key) {
	c.registry.Store.Lock()
	defer c.registry.Store.Unlock()
	if o, ok := c.registry.Store.Get(c.catalog.Core("Pod"), key).(*corev1.Pod); ok && o.Spec.NodeName == "" {
		c.nodes.pending[key] = true
	}
}

// missingClaim says which claim of a pod cannot get a volume.
func (c *Controllers) missingClaim(pod *corev1.Pod) string {
	for _, name := range claimsOf(pod) {
		claim, ok := read[*corev1.PersistentVolumeClaim](c, store.Key{Namespace: pod.Namespace, Name: name})
		switch {
		case !ok:
			return fmt.Sprintf("persistentvolumeclaim %q not found", name)
		case claim.DeletionTimestamp != nil:
			return fmt.Sprintf("persistentvolumeclaim %q is being deleted", name)
		case claim.Status.Phase == corev1.ClaimBound:
		default:
			if class := c.classOf(claim); class == nil || *class.VolumeBindingMode == storagev1.VolumeBindingImmediate {
				return "pod has unbound immediate PersistentVolumeClaims"
			}
		}
	}
	return ""
}

// claimsBound reports whether all claims of a pod have volumes. It asks for those that have none.
func (c *Controllers) claimsBound(pod *corev1.Pod, node string) (bool, error) {
	bound := true
	for _, name := range claimsOf(pod) {
		claim, ok := read[*corev1.PersistentVolumeClaim](c, store.Key{Namespace: pod.Namespace, Name: name})
		if ok && claim.Status.Phase == corev1.ClaimBound {
			continue
		}
		bound = false
		if ok && claim.Annotations[annotationSelectedNode] == "" {
			err := change(c, scheduler, claim, "", func(live *corev1.PersistentVolumeClaim) {
				annotate(live, annotationSelectedNode, node)
			})
			if err != nil {
				return false, err
			}
		}
	}
	return bound, nil
}

// choose returns the node with the most room for a pod, or why there is none.
func (c *Controllers) choose(pod *corev1.Pod) (node, reason string) {
	all := list[*corev1.Node](c, "")
	if len(all) == 0 {
		return "", "no nodes available to schedule pods"
	}
	reasons := map[string]int{}
	best := int64(0)
	requests := requestsOf(pod)
	for _, n := range all {
		refusal := refusal(pod, n)
		if refusal == "" && c.options.Refuse != nil {
			refusal = c.options.Refuse(pod, n.Name)
		}
		c.registry.Store.RLock()
		room, lacking := roomOn(n, c.nodes.requested[n.Name], requests)
		c.registry.Store.RUnlock()
		switch {
		case refusal != "":
			reasons[refusal]++
		case lacking != "":
			reasons[lacking]++
		case node == "" || room > best:
			node, best = n.Name, room
		}
	}
	if node != "" {
		return node, ""
	}
	texts := make([]string, 0, len(reasons))
	for _, text := range slices.SortedFunc(maps.Keys(reasons), cmp.Compare[string]) {
		texts = append(texts, fmt.Sprintf("%d %s", reasons[text], text))
	}
	return "", fmt.Sprintf("0/%d nodes are available: %s. preemption: 0/%d nodes are available: %d Preemption is not "+
		"helpful for scheduling.", len(all), strings.Join(texts, ", "), len(all), len(all))
}

// roomOn returns how much memory is left on a node, or what it lacks for a pod.
func roomOn(n *corev1.Node, used, requests corev1.ResourceList) (room int64, lacking string) {
	for _, name := range []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory} {
		left := n.Status.Allocatable[name].DeepCopy()
		left.Sub(used[name])
		if name == corev1.ResourceMemory {
			room = left.Value()
		}
		if request := requests[name]; !request.IsZero() && left.Cmp(request) < 0 {
			if name == corev1.ResourcePods {
				return 0, "Too many pods"
			}
			return 0, "Insufficient " + string(name)
		}
	}
	return room, ""
}

// refusal says why a node takes no pod like this one.
func refusal(pod *corev1.Pod, n *corev1.Node) string {
	switch {
	case n.Spec.Unschedulable:
		return "node(s) were unschedulable"
	case !labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(n.Labels)):
		return "node(s) didn't match Pod's node affinity/selector"
	}
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(pod, t) {
			return "node(s) had untolerated taint(s)"
		}
	}
	return ""
}

func tolerates(pod *corev1.Pod, taint *corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return (t.Effect == "" || t.Effect == taint.Effect) && (t.Key == "" || t.Key == taint.Key) &&
			(t.Operator == corev1.TolerationOpExists || t.Value == taint.Value)
	})
}

// postpone says in the status of a pod, and in an event, why it has no node.
func (c *Controllers) postpone(pod *corev1.Pod, reason string) error {
	for i := range pod.Status.Conditions {
		if old := &pod.Status.Conditions[i]; old.Type == corev1.PodScheduled && old.Message == reason {
			return nil
		}
	}
	c.warn(pod, failedScheduling, reason)
	return change(c, scheduler, pod, "status", func(live *corev1.Pod) {
		live.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: reason,
			LastTransitionTime: metav1.Now(), ObservedGeneration: live.Generation,
		}}
	})
}
