package controllers

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// syncStatefulSet brings the pods of a StatefulSet to its template and number, one step at a time: each change of a pod
// brings it back. New pods are always of the newest template, so partitions have no effect.
func (c *Controllers) syncStatefulSet(key store.Key) error {
	set, ok := read[*appsv1.StatefulSet](c, key)
	if !ok || set.DeletionTimestamp != nil {
		return nil
	}
	revision := set.Name + "-" + hashOf(&set.Spec.Template)
	pods, condemned := c.podsOf(set)
	err := c.stepStatefulSet(set, revision, pods, condemned)
	return errors.Join(err, c.writeStatefulSet(set, revision))
}

// podsOf returns the pods of a set by ordinal, with nil for those that do not exist, and those that are too many.
func (c *Controllers) podsOf(set *appsv1.StatefulSet) (pods []*corev1.Pod, condemned []*corev1.Pod) {
	pods = make([]*corev1.Pod, *set.Spec.Replicas)
	for _, pod := range list[*corev1.Pod](c, set.Namespace) {
		if !metav1.IsControlledBy(pod, set) {
			continue
		}
		ordinal, err := strconv.Atoi(pod.Labels[appsv1.PodIndexLabel])
		if err != nil || ordinal >= len(pods) {
			condemned = append(condemned, pod)
		} else {
			pods[ordinal] = pod
		}
	}
	slices.Reverse(condemned)
	return pods, condemned
}

// stepStatefulSet creates and deletes pods. Where pods are managed in order, it stops at the first that is not ready.
func (c *Controllers) stepStatefulSet(set *appsv1.StatefulSet, revision string, pods, condemned []*corev1.Pod) error {
	ordered := set.Spec.PodManagementPolicy == appsv1.OrderedReadyPodManagement
	for ordinal, pod := range pods {
		switch {
		case pod == nil:
			if err := c.createPodOf(set, ordinal, revision); err != nil || ordered {
				return err
			}
		case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
			if err := remove(c, statefulSets, pod, metav1.DeleteOptions{}); err != nil || ordered {
				return err
			}
		case ordered && (pod.DeletionTimestamp != nil || !isReady(pod)):
			return nil
		}
	}
	for _, pod := range condemned {
		if pod.DeletionTimestamp == nil {
			if err := remove(c, statefulSets, pod, metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
		if ordered {
			return nil
		}
	}
	if set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return nil
	}
	for _, pod := range slices.Backward(pods) {
		switch {
		case pod == nil || pod.DeletionTimestamp != nil:
			return nil
		case pod.Labels[appsv1.ControllerRevisionHashLabelKey] != revision:
			return remove(c, statefulSets, pod, metav1.DeleteOptions{})
		case !isReady(pod):
			return nil
		}
	}
	return nil
}

// createPodOf creates a pod of a set, and the claims that it lacks. Why that is impossible is an event.
func (c *Controllers) createPodOf(set *appsv1.StatefulSet, ordinal int, revision string) error {
	name := fmt.Sprintf("%s-%d", set.Name, ordinal)
	pod := newPod(&set.Spec.Template, metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet")))
	pod.Name, pod.GenerateName, pod.Namespace = name, set.Name+"-", set.Namespace
	pod.Labels[appsv1.ControllerRevisionHashLabelKey], pod.Labels[appsv1.StatefulSetPodNameLabel] = revision, name
	pod.Labels[appsv1.PodIndexLabel] = strconv.Itoa(ordinal)
	pod.Spec.Hostname, pod.Spec.Subdomain = name, set.Spec.ServiceName
	for i := range set.Spec.VolumeClaimTemplates {
		claim := set.Spec.VolumeClaimTemplates[i].DeepCopy()
		volume := corev1.Volume{Name: claim.Name}
		claim.Name, claim.Namespace = claim.Name+"-"+name, set.Namespace
		if claim.Labels == nil {
			claim.Labels = map[string]string{}
		}
		for k, v := range set.Spec.Selector.MatchLabels {
			claim.Labels[k] = v
		}
		volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}
		pod.Spec.Volumes = append(slices.DeleteFunc(pod.Spec.Volumes,
			func(v corev1.Volume) bool { return v.Name == volume.Name }), volume)
		if err := create(c, statefulSets, claim); err != nil {
			c.warn(set, "FailedCreate", fmt.Sprintf("Create Claim %s for Pod %s in StatefulSet %s failed error: %v",
				claim.Name,
				name, set.Name, err))
			return err
		}
	}
	if err := create(c, statefulSets, pod); err != nil {
		c.warn(set, "FailedCreate", fmt.Sprintf("Create Pod %s in StatefulSet %s failed error: %v", name, set.Name,
			err))
		return err
	}
	return nil
}

// writeStatefulSet writes the status of a set.
func (c *Controllers) writeStatefulSet(set *appsv1.StatefulSet, revision string) error {
	status := appsv1.StatefulSetStatus{
		ObservedGeneration: set.Generation, CurrentRevision: set.Status.CurrentRevision, UpdateRevision: revision,
		CollisionCount: new(int32), Conditions: set.Status.Conditions,
	}
	if status.CurrentRevision == "" {
		status.CurrentRevision = revision
	}
	pods, condemned := c.podsOf(set)
	for _, pod := range append(pods, condemned...) {
		if pod == nil {
			continue
		}
		status.Replicas++
		if isReady(pod) {
			status.ReadyReplicas++
			status.AvailableReplicas++
		}
		if pod.DeletionTimestamp != nil {
			continue
		}
		switch pod.Labels[appsv1.ControllerRevisionHashLabelKey] {
		case revision:
			status.UpdatedReplicas++
			if revision == status.CurrentRevision {
				status.CurrentReplicas++
			}
		case status.CurrentRevision:
			status.CurrentReplicas++
		}
	}
	if status.UpdatedReplicas == *set.Spec.Replicas && status.ReadyReplicas == *set.Spec.Replicas &&
		status.Replicas == *set.Spec.Replicas {
		status.CurrentRevision, status.CurrentReplicas = revision, status.UpdatedReplicas
	}
	return change(c, statefulSets, set, "status", func(live *appsv1.StatefulSet) { live.Status = status })
}
