package controllers

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"agents.example/controlplane/emulators/kubernetesemu/admission"
	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// Observe takes note of a change, and of what must be looked at because of it. The store is locked.
func (c *Controllers) Observe(change store.Change) {
	c.owners.observe(change)
	c.observeOwners(change)
	c.observeNamespace(change)
	if len(admission.Usage(change.Last)) > 0 {
		c.add(quotas, store.Key{Namespace: change.Key.Namespace})
	}
	switch o := change.Last.(type) {
	case *corev1.ResourceQuota:
		c.add(quotas, store.Key{Namespace: change.Key.Namespace})
	case *appsv1.StatefulSet:
		c.add(statefulSets, change.Key)
	case *appsv1.ReplicaSet:
		c.add(replicaSets, change.Key)
	case *appsv1.Deployment:
		c.add(deployments, change.Key)
	case *corev1.Service:
		c.add(endpoints, change.Key)
	case *corev1.Pod:
		c.observePod(change, o)
	case *corev1.PersistentVolumeClaim:
		c.add(claims, change.Key)
		if change.After == nil {
			c.observeReleased(change.Key)
		}
		c.retryPending()
	case *corev1.PersistentVolume:
		c.add(volumes, change.Key)
		if ref := o.Spec.ClaimRef; ref != nil {
			c.add(claims, store.Key{Namespace: ref.Namespace, Name: ref.Name})
		}
	case *corev1.Node:
		c.nodes.observeNode(change)
		c.retryPending()
	}
}

// observeNamespace takes note of namespaces, and of objects that a namespace lacks or that keep it.
func (c *Controllers) observeNamespace(change store.Change) {
	if change.Kind == c.catalog.Core("Namespace") {
		c.add(namespaces, store.Key{Name: change.Key.Name})
		return
	}
	if change.Kind.Namespaced && change.After == nil {
		namespace := c.registry.Store.Get(c.catalog.Core("Namespace"), store.Key{Name: change.Key.Namespace})
		own := change.Key.Name == defaultAccount || change.Key.Name == rootCA
		if namespace != nil && (own || store.Meta(namespace).GetDeletionTimestamp() != nil) {
			c.add(namespaces, store.Key{Name: change.Key.Namespace})
		}
	}
}

// observePod takes note of the pods of workloads and services, and of those that want a node.
func (c *Controllers) observePod(change store.Change, pod *corev1.Pod) {
	c.nodes.observePod(change)
	if owner := metav1.GetControllerOf(pod); owner != nil {
		key := store.Key{Namespace: pod.Namespace, Name: owner.Name}
		switch owner.Kind {
		case "StatefulSet":
			c.add(statefulSets, key)
		case "ReplicaSet":
			c.add(replicaSets, key)
		}
	}
	for _, o := range c.registry.Store.List(c.catalog.Core("Service"), pod.Namespace) {
		c.add(endpoints, store.Key{Namespace: pod.Namespace, Name: store.Meta(o).GetName()})
	}
	if change.After == nil {
		for _, name := range claimsOf(pod) {
			c.add(claims, store.Key{Namespace: pod.Namespace, Name: name})
		}
		c.retryPending() // there is room now
		return
	}
	if pod.Spec.NodeName == "" {
		c.add(scheduler, change.Key)
	}
}

// observeReleased takes note of the volumes that were made for a claim that is gone, which need not be bound to it yet.
func (c *Controllers) observeReleased(claim store.Key) {
	for _, o := range c.registry.Store.List(c.catalog.Core("PersistentVolume"), "") {
		v, _ := o.(*corev1.PersistentVolume)
		if ref := v.Spec.ClaimRef; ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name {
			c.add(volumes, store.Key{Name: v.Name})
		}
	}
}

// retryPending makes the scheduler look again at all pods that found no node.
func (c *Controllers) retryPending() {
	for key := range c.nodes.pending {
		c.add(scheduler, key)
	}
}

// claimsOf returns the names of the claims that a pod uses.
func claimsOf(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			names = append(names, claim.ClaimName)
		}
	}
	return names
}

// hasFinalizer reports whether an object has a finalizer.
func hasFinalizer(o runtime.Object, finalizer string) bool {
	return slices.Contains(store.Meta(o).GetFinalizers(), finalizer)
}
