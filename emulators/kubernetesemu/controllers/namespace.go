package controllers

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// The objects that every namespace has.
const (
	defaultAccount = "default"
	rootCA         = "kube-root-ca.crt"
)

// syncNamespace gives a namespace the objects that all have, or removes what is left of a deleted one.
func (c *Controllers) syncNamespace(name string) error {
	n, ok := read[*corev1.Namespace](c, store.Key{Name: name})
	switch {
	case !ok:
		return nil
	case n.DeletionTimestamp != nil:
		return c.emptyNamespace(n)
	}
	meta := metav1.ObjectMeta{Namespace: name}
	if meta.Name = defaultAccount; !c.has("ServiceAccount", meta) {
		if err := create(c, namespaces, &corev1.ServiceAccount{ObjectMeta: meta}); err != nil {
			return err
		}
	}
	if meta.Name = rootCA; c.has("ConfigMap", meta) {
		return nil
	}
	return create(c, namespaces, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"ca.crt": c.options.CA}})
}

func (c *Controllers) has(kind string, m metav1.ObjectMeta) bool {
	_, err := c.registry.Get(c.catalog.Core(kind), store.Key{Namespace: m.Namespace, Name: m.Name})
	return err == nil
}

// emptyNamespace begins the deletion of all objects of a deleted namespace, and releases it when none is left. The end
// of each object brings it back.
func (c *Controllers) emptyNamespace(n *corev1.Namespace) error {
	var left []runtime.Object
	for _, k := range c.catalog.Kinds {
		if !k.Namespaced {
			continue
		}
		c.registry.Store.RLock()
		objects := c.registry.Store.List(k, n.Name)
		c.registry.Store.RUnlock()
		for _, o := range objects {
			if store.Meta(o).GetDeletionTimestamp() == nil {
				if err := remove(c, namespaces, o, metav1.DeleteOptions{}); err != nil {
					return err
				}
			}
			if live, err := c.registry.Get(k, store.Key{Namespace: n.Name, Name: store.Meta(o).GetName()}); err == nil {
				left = append(left, live)
			}
		}
	}
	if len(left) > 0 {
		return c.explainNamespace(n, left)
	}
	return change(c, namespaces, n, "finalize", func(live *corev1.Namespace) {
		live.Spec.Finalizers = slices.DeleteFunc(live.Spec.Finalizers,
			func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
	})
}

// explainNamespace says in the status of a deleted namespace which objects and finalizers keep it.
func (c *Controllers) explainNamespace(n *corev1.Namespace, left []runtime.Object) error {
	resources, finalizers := map[string]int{}, map[string]int{}
	for _, o := range left {
		resources[c.catalog.Of(o).Resource().String()]++
		for _, f := range store.Meta(o).GetFinalizers() {
			finalizers[f]++
		}
	}
	conditions := []corev1.NamespaceCondition{{
		Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionTrue, Reason: "SomeResourcesRemain",
		Message: "Some resources are remaining: " + countsOf(resources, "%s has %d resource instances"),
	}}
	if len(finalizers) > 0 {
		conditions = append(conditions, corev1.NamespaceCondition{
			Type: corev1.NamespaceFinalizersRemaining, Status: corev1.ConditionTrue, Reason: "SomeFinalizersRemain",
			Message: "Some content in the namespace has finalizers remaining: " + countsOf(finalizers,
				"%s in %d resource instances"),
		})
	}
	return change(c, namespaces, n, "status", func(live *corev1.Namespace) {
		for i := range conditions {
			conditions[i].LastTransitionTime = metav1.Now()
			for _, old := range live.Status.Conditions {
				if old.Type == conditions[i].Type {
					conditions[i].LastTransitionTime = old.LastTransitionTime
				}
			}
		}
		live.Status.Conditions = conditions
	})
}

func countsOf(counts map[string]int, format string) string {
	texts := make([]string, 0, len(counts))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		texts = append(texts, fmt.Sprintf(format, name, counts[name]))
	}
	return strings.Join(texts, ", ")
}

// withoutFinalizer removes a finalizer from an object.
func (c *Controllers) withoutFinalizer(name controller, o runtime.Object, finalizer string) error {
	return change(c, name, o, "", func(live runtime.Object) {
		m := store.Meta(live)
		m.SetFinalizers(slices.DeleteFunc(m.GetFinalizers(), func(f string) bool { return f == finalizer }))
	})
}

// syncQuotas writes what the objects of a namespace use of its quotas.
func (c *Controllers) syncQuotas(namespace string) error {
	for _, q := range list[*corev1.ResourceQuota](c, namespace) {
		c.registry.Store.RLock()
		used := c.registry.Admission.Used(namespace, q.Spec.Hard)
		c.registry.Store.RUnlock()
		if equality.Semantic.DeepEqual(q.Status.Hard, q.Spec.Hard) && equality.Semantic.DeepEqual(q.Status.Used, used) {
			continue
		}
		err := change(c, quotas, q, "status", func(live *corev1.ResourceQuota) {
			live.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: used}
		})
		if err != nil {
			return err
		}
	}
	return nil
}
