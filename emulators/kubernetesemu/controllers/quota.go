package controllers

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

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
