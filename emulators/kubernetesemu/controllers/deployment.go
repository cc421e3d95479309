package controllers

import (
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// syncDeployment keeps one ReplicaSet of the present template. Those of former templates go when it is ready; a
// deployment that may not have more pods than it wants first loses the former ones.
func (c *Controllers) syncDeployment(key store.Key) error {
	d, ok := read[*appsv1.Deployment](c, key)
	if !ok || d.DeletionTimestamp != nil {
		return nil
	}
	var present *appsv1.ReplicaSet
	var former []*appsv1.ReplicaSet
	hash := hashOf(&d.Spec.Template)
	for _, set := range list[*appsv1.ReplicaSet](c, d.Namespace) {
		switch {
		case !metav1.IsControlledBy(set, d):
		case set.Labels[appsv1.DefaultDeploymentUniqueLabelKey] == hash:
			present = set
		default:
			former = append(former, set)
		}
	}
	if present == nil {
		if !surges(d) && c.countPods(former) > 0 {
			return c.scaleAll(former)
		}
		return create(c, deployments, newReplicaSet(d, hash))
	}
	if *present.Spec.Replicas != *d.Spec.Replicas {
		replicas := *d.Spec.Replicas
		err := change(c, deployments, present, "", func(live *appsv1.ReplicaSet) { live.Spec.Replicas = &replicas })
		if err != nil {
			return err
		}
	}
	if present.Status.ReadyReplicas >= *d.Spec.Replicas {
		if err := c.scaleAll(former); err != nil {
			return err
		}
	}
	return c.writeDeployment(d, present, former)
}

// surges reports whether a deployment may have more pods than it wants during an update.
func surges(d *appsv1.Deployment) bool {
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType || d.Spec.Strategy.RollingUpdate == nil {
		return false
	}
	surge, err := intstr.GetScaledValueFromIntOrPercent(d.Spec.Strategy.RollingUpdate.MaxSurge,
		int(*d.Spec.Replicas), true)
	return err == nil && surge > 0
}

func (c *Controllers) countPods(sets []*appsv1.ReplicaSet) (pods int32) {
	for _, set := range sets {
		pods += set.Status.Replicas
	}
	return pods
}

// scaleAll scales sets to zero.
func (c *Controllers) scaleAll(sets []*appsv1.ReplicaSet) error {
	for _, set := range sets {
		if *set.Spec.Replicas == 0 {
			continue
		}
		err := change(c, deployments, set, "", func(live *appsv1.ReplicaSet) { live.Spec.Replicas = new(int32) })
		if err != nil {
			return err
		}
	}
	return nil
}

func newReplicaSet(d *appsv1.Deployment, hash string) *appsv1.ReplicaSet {
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: d.Name + "-" + hash, Namespace: d.Namespace, Labels: maps.Clone(d.Spec.Template.Labels),
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment")),
			},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: d.Spec.Replicas, Selector: d.Spec.Selector.DeepCopy(), Template: *d.Spec.Template.DeepCopy(),
		},
	}
	if set.Spec.Selector.MatchLabels == nil {
		set.Spec.Selector.MatchLabels = map[string]string{}
	}
	for _, labels := range []map[string]string{set.Labels, set.Spec.Selector.MatchLabels, set.Spec.Template.Labels} {
		labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	}
	return set
}

func (c *Controllers) writeDeployment(d *appsv1.Deployment, present *appsv1.ReplicaSet, former []*appsv1.ReplicaSet) error {
	status := appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, UpdatedReplicas: present.Status.Replicas,
		Replicas:      present.Status.Replicas + c.countPods(former),
		ReadyReplicas: present.Status.ReadyReplicas, AvailableReplicas: present.Status.AvailableReplicas,
	}
	for _, set := range former {
		status.ReadyReplicas += set.Status.ReadyReplicas
		status.AvailableReplicas += set.Status.AvailableReplicas
	}
	available := corev1.ConditionFalse
	if status.UnavailableReplicas = max(*d.Spec.Replicas-status.AvailableReplicas, 0); status.UnavailableReplicas == 0 {
		available = corev1.ConditionTrue
	}
	condition := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentAvailable, Status: available, LastUpdateTime: metav1.Now(), LastTransitionTime: metav1.Now(),
	}
	if old := d.Status.Conditions; len(old) == 1 && old[0].Status == available {
		condition = old[0]
	}
	status.Conditions = []appsv1.DeploymentCondition{condition}
	return change(c, deployments, d, "status", func(live *appsv1.Deployment) { live.Status = status })
}

// syncReplicaSet brings the pods of a ReplicaSet to its number.
func (c *Controllers) syncReplicaSet(key store.Key) error {
	set, ok := read[*appsv1.ReplicaSet](c, key)
	if !ok || set.DeletionTimestamp != nil {
		return nil
	}
	if owner := metav1.GetControllerOf(set); owner != nil && owner.Kind == "Deployment" {
		defer c.add(deployments, store.Key{Namespace: set.Namespace, Name: owner.Name})
	}
	var pods []*corev1.Pod
	status := appsv1.ReplicaSetStatus{ObservedGeneration: set.Generation}
	for _, pod := range list[*corev1.Pod](c, set.Namespace) {
		if !metav1.IsControlledBy(pod, set) || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed ||
			pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		pods = append(pods, pod)
		status.Replicas++
		status.FullyLabeledReplicas++
		if isReady(pod) {
			status.ReadyReplicas++
			status.AvailableReplicas++
		}
	}
	for i := len(pods); i < int(*set.Spec.Replicas); i++ {
		pod := newPod(&set.Spec.Template, metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")))
		pod.GenerateName, pod.Namespace = set.Name+"-", set.Namespace
		if err := create(c, replicaSets, pod); err != nil {
			c.warn(set, "FailedCreate", fmt.Sprintf("Error creating: %v", err))
			return err
		}
	}
	for i := int(*set.Spec.Replicas); i < len(pods); i++ {
		if err := remove(c, replicaSets, pods[i], metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return change(c, replicaSets, set, "status", func(live *appsv1.ReplicaSet) { live.Status = status })
}
