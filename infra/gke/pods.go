package gke

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

var _ provisioning.PodLister = (*Clusters)(nil)

// Cells implements provisioning.PodLister.
func (c *Clusters) Cells() []string { return slices.Sorted(maps.Keys(c.cells)) }

// Pods implements provisioning.PodLister. It is one request for each pageSize pods of the cell, all of one moment, and
// the same for the events about evictions.
func (c *Clusters) Pods(ctx context.Context, cell string) ([]provisioning.Pod, error) {
	client, err := c.client(cell)
	if err != nil {
		return nil, err
	}
	var found []provisioning.Pod
	t := core("Pod", "", "")
	labelled := selection{t, metav1.ListOptions{LabelSelector: ours + "," + labelName + "=" + agentName}}
	err = list(ctx, client, labelled, func() { found = nil }, func(page *corev1.PodList) {
		for i := range page.Items {
			pod := &page.Items[i]
			id := pod.Labels[labelAgent]
			if pod.Namespace != agent.Namespace(id) || pod.Name != podName {
				continue // a foreign pod with labels copied from one of ours
			}
			found = append(found, observed(id, pod))
		}
	})
	if err != nil {
		return nil, explain(err, t)
	}
	client.addEvictions(ctx, cell, found)
	return found, nil
}

// observed says what a pod says of itself. Whether it is the pod that the agent wants is not known without the agent's
// record: see Current.
func observed(id string, pod *corev1.Pod) provisioning.Pod {
	hash := pod.Annotations[annotationConfig]
	v := desired{hash: hash, memoryMiB: memoryMiB(pod)}.judge(pod)
	return provisioning.Pod{
		AgentID: id, Config: hash, Since: since(pod), Failure: v.failure, UID: string(pod.UID), Restarts: restarts(pod),
		LastRun: lastRun(pod), Lost: lost(pod), Ended: endedContainers(pod),
	}
}

// restarts is how often the agent's container was started again.
func restarts(pod *corev1.Pod) int64 {
	if status := statusOf(pod.Status.ContainerStatuses, agentName); status != nil {
		return int64(status.RestartCount)
	}
	return 0
}

// since is when the pod became Ready or ceased to be. One that is told to stop counts as Ready for as long as it may
// take to do so, also if it is not Ready any more because of that.
func since(pod *corev1.Pod) time.Time {
	ready := condition(pod, corev1.PodReady)
	switch {
	case pod.DeletionTimestamp != nil &&
		(ready.Status == corev1.ConditionTrue || ready.LastTransitionTime.After(toldToStop(pod))):
		return pod.DeletionTimestamp.Time
	case ready.LastTransitionTime.IsZero():
		return pod.CreationTimestamp.Time
	default:
		return ready.LastTransitionTime.Time
	}
}

// toldToStop is when a pod with a time of its deletion was deleted: that time is when it must have ended.
func toldToStop(pod *corev1.Pod) time.Time {
	var grace time.Duration
	if seconds := pod.DeletionGracePeriodSeconds; seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	return pod.DeletionTimestamp.Add(-grace)
}

// lastRun is how long the agent's container had run when it last ended. A runtime that could not even start it tells
// the beginning of Unix time, or nothing, for the time of its start: then it has not run.
func lastRun(pod *corev1.Pod) time.Duration {
	exit := lastExit(pod)
	if exit == nil || exit.StartedAt.Unix() <= 0 {
		return 0
	}
	return max(0, exit.FinishedAt.Sub(exit.StartedAt.Time))
}

// lastExit is the latest end of the agent's container; nil if it has not ended.
func lastExit(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	status := statusOf(pod.Status.ContainerStatuses, agentName)
	switch {
	case status == nil:
		return nil
	case status.State.Terminated != nil:
		return status.State.Terminated
	default:
		return status.LastTerminationState.Terminated
	}
}

// lost is when the agent ceased to serve before its pod became Ready: when its container ended, or when the pod was
// created in the place of another.
func lost(pod *corev1.Pod) time.Time {
	if pod.DeletionTimestamp != nil {
		return time.Time{} // since does not say when it became Ready
	}
	if exit := lastExit(pod); exit != nil && exit.FinishedAt.After(pod.CreationTimestamp.Time) {
		return exit.FinishedAt.Time
	}
	return pod.CreationTimestamp.Time
}

// memoryMiB is how much memory the agent's container has.
func memoryMiB(pod *corev1.Pod) int64 {
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == agentName {
			return c.Resources.Limits.Memory().Value() >> 20
		}
	}
	return 0
}

// Current implements provisioning.PodLister.
func (c *Clusters) Current(a agent.Agent, p provisioning.Pod) bool {
	return p.Config != "" && p.Config == configHash(a)
}

// Existence implements provisioning.PodLister.
func (c *Clusters) Existence(ctx context.Context, a agent.Agent) (provisioning.Existence, error) {
	client, err := c.client(a.Cell)
	if err != nil {
		return provisioning.Existence{}, err
	}
	t := core("Namespace", "", a.Namespace())
	namespace, err := client.getMetadata(ctx, t)
	if apierrors.IsNotFound(err) || err == nil && namespace.DeletionTimestamp != nil {
		return provisioning.Existence{}, nil
	}
	if err != nil {
		return provisioning.Existence{}, explain(err, t)
	}
	t = core("Pod", a.Namespace(), podName)
	if _, err = client.getMetadata(ctx, t); apierrors.IsNotFound(err) {
		return provisioning.Existence{Namespace: true}, nil
	}
	if err != nil {
		return provisioning.Existence{}, explain(err, t)
	}
	return provisioning.Existence{Namespace: true, Pod: true}, nil
}
