package cellwatch

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/shared/dataplane/notifier"
)

// observe says what a pod says about itself.
func observe(pod *corev1.Pod) notifier.Pod {
	p := notifier.Pod{UID: string(pod.UID), Since: readySince(pod)}
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue:
			p.Ready = true
			return p
		case c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable:
			p.Trouble = c.Reason
		}
	}
	if pod.DeletionTimestamp != nil { // it stops, whatever it says
		p.Trouble = ""
		return p
	}
	if pod.Status.Phase == corev1.PodFailed {
		p.Trouble = "failed " + pod.Status.Reason
		return p
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if t := trouble(&statuses[i]); t != "" {
				p.Trouble = statuses[i].Name + " " + t
			}
		}
	}
	return p
}

// enoughCrashes is after how many restarts a crash is no accident for package provisioning. Later crashes are no news.
const enoughCrashes = 3

// trouble names what keeps a container from serving; empty while nothing does. A container that crashes again and again
// alternates between three states: the name stays the same until the number of its crashes says something new.
func trouble(s *corev1.ContainerStatus) string {
	backsOff := false
	if w := s.State.Waiting; w != nil {
		switch w.Reason {
		case "CrashLoopBackOff":
			backsOff = true
		case "ErrImagePull", "ImagePullBackOff": // they alternate, too
			return "image pull"
		case "", "ContainerCreating", "PodInitializing":
		default:
			return w.Reason
		}
	}
	exit := s.State.Terminated
	if exit == nil {
		exit = s.LastTerminationState.Terminated
	}
	if exit == nil {
		return ""
	}
	crashes := strconv.Itoa(int(min(s.RestartCount, enoughCrashes)))
	if s.RestartCount > enoughCrashes || s.RestartCount == enoughCrashes && backsOff {
		crashes = "often"
	}
	return exit.Reason + " " + crashes
}

// stripPods removes what observe and agentOf do not read. It runs before an object is stored, so that the memory of
// some thousand agents is some megabytes.
func stripPods(o any) (any, error) {
	switch o := o.(type) {
	case *corev1.Pod:
		return &corev1.Pod{ObjectMeta: withTimes(o), Status: corev1.PodStatus{
			Phase: o.Status.Phase, Reason: o.Status.Reason, Conditions: stripConditions(o.Status.Conditions),
			InitContainerStatuses: stripContainers(o.Status.InitContainerStatuses),
			ContainerStatuses:     stripContainers(o.Status.ContainerStatuses),
		}}, nil
	case *corev1.Namespace:
		return &corev1.Namespace{ObjectMeta: stripMeta(o)}, nil
	case *corev1.PersistentVolume:
		v := &corev1.PersistentVolume{ObjectMeta: stripMeta(o)}
		if o.Spec.ClaimRef != nil {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: o.Spec.ClaimRef.Namespace}
		}
		return v, nil
	default:
		return o, nil
	}
}

// withTimes keeps the times of a pod, too.
func withTimes(pod *corev1.Pod) metav1.ObjectMeta {
	m := stripMeta(pod)
	m.CreationTimestamp, m.DeletionTimestamp = pod.CreationTimestamp, pod.DeletionTimestamp
	return m
}

func stripConditions(all []corev1.PodCondition) []corev1.PodCondition {
	var kept []corev1.PodCondition
	for _, c := range all {
		if c.Type == corev1.PodReady || c.Type == corev1.PodScheduled {
			kept = append(kept, corev1.PodCondition{
				Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime,
			})
		}
	}
	return kept
}

func stripContainers(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for i := range all {
		s := corev1.ContainerStatus{Name: all[i].Name, RestartCount: all[i].RestartCount}
		if w := all[i].State.Waiting; w != nil {
			s.State.Waiting = &corev1.ContainerStateWaiting{Reason: w.Reason}
		}
		s.State.Terminated = stripExit(all[i].State.Terminated)
		s.LastTerminationState.Terminated = stripExit(all[i].LastTerminationState.Terminated)
		kept = append(kept, s)
	}
	return kept
}

func stripExit(exit *corev1.ContainerStateTerminated) *corev1.ContainerStateTerminated {
	if exit == nil {
		return nil
	}
	return &corev1.ContainerStateTerminated{Reason: exit.Reason}
}
