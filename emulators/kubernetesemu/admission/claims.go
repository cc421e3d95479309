package admission

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// checkResize refuses to grow a claim whose class does not allow that.
func (a *Admission) checkResize(r *Attributes, claim *corev1.PersistentVolumeClaim) error {
	old, ok := r.Old.(*corev1.PersistentVolumeClaim)
	if !ok {
		return nil
	}
	asked, had := claim.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if asked.Cmp(had) <= 0 {
		return nil
	}
	if name := old.Spec.StorageClassName; name != nil {
		kind := a.catalog.Kind(storagev1.SchemeGroupVersion.WithKind("StorageClass"))
		class, ok := a.store.Get(kind, store.Key{Name: *name}).(*storagev1.StorageClass)
		if ok && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion {
			return nil
		}
	}
	return r.forbidden("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc " +
		"must support resize")
}
