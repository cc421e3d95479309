// Package kubelet computes the next status that a kubelet would report for a pod, with or without a fault. It does not
// access an API server, a clock or other pods.
package kubelet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Moment is the time and the circumstances of a report.
type Moment struct {
	Fault Fault
	Now   time.Time
	// Started is the start of the pod's youngest container, from the last Report. If zero, the pod's status provides
	// it, in whole seconds.
	Started time.Time
}

// Report is a kubelet's report of a pod.
type Report struct {
	Status  corev1.PodStatus
	Started time.Time     // for the next Moment
	Hold    time.Duration // how long it stays true without events; 0 means forever
}

// Next returns the report that follows the pod's status; a process that takes time takes several reports. Next does not
// modify the pod, whose status must contain its own address and its host's.
func Next(pod *corev1.Pod, m Moment) Report {
	k := &kubelet{pod: pod, fault: m.Fault, now: m.Now, started: m.Started}
	status := *pod.Status.DeepCopy()
	status.ObservedGeneration = pod.Generation
	if status.StartTime == nil {
		status.StartTime = &metav1.Time{Time: m.Now}
	}
	status.PodIPs = []corev1.PodIP{{IP: status.PodIP}}
	status.HostIPs = []corev1.HostIP{{IP: status.HostIP}}
	status.InitContainerStatuses = k.initContainers()
	var containers []corev1.ContainerStatus
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		containers = append(containers, k.container(c, find(status.ContainerStatuses, c)))
	}
	status.ContainerStatuses = containers
	status.Phase = phase(containers, pod.Spec.RestartPolicy)
	setConditions(&status, unready(containers), m.Now)
	return Report{Status: status, Started: k.started, Hold: k.wait}
}

// kubelet computes one report.
type kubelet struct {
	pod     *corev1.Pod
	fault   Fault
	now     time.Time
	started time.Time     // moves when a container starts
	wait    time.Duration // how long the report stays true; 0 means forever
}

// initContainers returns the statuses of init containers, which complete immediately. Sidecars keep running.
func (k *kubelet) initContainers() []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for i := range k.pod.Spec.InitContainers {
		c := &k.pod.Spec.InitContainers[i]
		status := find(k.pod.Status.InitContainerStatuses, c)
		sidecar := IsSidecar(c)
		if !status.Ready {
			status.Ready, status.Started, status.ContainerID = true, &sidecar, k.containerID(&status)
			if status.State = (corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(k.now)}}); !sidecar {
				status.State = exit(&status, 0, "Completed", k.now)
			}
		}
		statuses = append(statuses, status)
	}
	return statuses
}

// Stop returns the last status of a deleted pod, with all its containers ended.
func Stop(pod *corev1.Pod, now time.Time) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range list {
			if list[i].State.Terminated == nil {
				list[i].State = exit(&list[i], 0, "Completed", now)
			}
			list[i].Ready, list[i].Started = false, new(bool)
		}
	}
	// The containers of a deleted pod are not restarted, whatever the policy.
	status.Phase = phase(status.ContainerStatuses, corev1.RestartPolicyNever)
	setConditions(&status, unready(status.ContainerStatuses), now)
	return status
}

// phase derives the pod's phase from its containers.
func phase(containers []corev1.ContainerStatus, policy corev1.RestartPolicy) corev1.PodPhase {
	var running, stopped, failed int
	for i := range containers {
		c := &containers[i]
		last := c.State.Terminated
		if c.State.Waiting != nil {
			last = c.LastTerminationState.Terminated
		}
		switch {
		case c.State.Running != nil:
			running++
		case last == nil:
			return corev1.PodPending // it never ran
		default:
			if stopped++; last.ExitCode != 0 {
				failed++
			}
		}
	}
	switch {
	case running > 0 || policy == corev1.RestartPolicyAlways:
		return corev1.PodRunning
	case failed == 0 && stopped > 0:
		return corev1.PodSucceeded
	case policy == corev1.RestartPolicyNever && stopped > 0:
		return corev1.PodFailed
	}
	return corev1.PodRunning
}

// unready returns the names of the containers that are not ready.
func unready(statuses []corev1.ContainerStatus) (names []string) {
	for i := range statuses {
		if !statuses[i].Ready {
			names = append(names, statuses[i].Name)
		}
	}
	return names
}

// setConditions updates the conditions from the phase and the names of the containers that are not ready.
func setConditions(status *corev1.PodStatus, unready []string, now time.Time) {
	ready := corev1.PodCondition{Status: corev1.ConditionTrue}
	switch {
	case status.Phase == corev1.PodSucceeded:
		ready = corev1.PodCondition{Status: corev1.ConditionFalse, Reason: "PodCompleted"}
	case status.Phase == corev1.PodFailed:
		ready = corev1.PodCondition{Status: corev1.ConditionFalse, Reason: "PodFailed"}
	case len(unready) > 0:
		message := fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " "))
		ready = corev1.PodCondition{Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: message}
	}
	done := corev1.PodCondition{Status: corev1.ConditionTrue}
	sandbox := done
	if status.Phase == corev1.PodSucceeded || status.Phase == corev1.PodFailed {
		sandbox.Status = corev1.ConditionFalse
	}
	for _, c := range []struct {
		name      corev1.PodConditionType
		condition corev1.PodCondition
	}{
		{corev1.PodReadyToStartContainers, sandbox},
		{corev1.PodInitialized, done},
		{corev1.PodReady, ready},
		{corev1.ContainersReady, ready},
		{corev1.PodScheduled, done},
	} {
		c.condition.Type = c.name
		setCondition(status, c.condition, now)
	}
}

// setCondition keeps the transition time of a condition whose status does not change.
func setCondition(status *corev1.PodStatus, condition corev1.PodCondition, now time.Time) {
	condition.LastTransitionTime, condition.ObservedGeneration = metav1.NewTime(now), status.ObservedGeneration
	i := slices.IndexFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type == condition.Type })
	if i < 0 {
		status.Conditions = append(status.Conditions, condition)
		return
	}
	if before := status.Conditions[i]; before.Status == condition.Status {
		condition.LastTransitionTime = before.LastTransitionTime
	}
	status.Conditions[i] = condition
}
