package controllers

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"agents.example/controlplane/emulators/kubernetesemu/admission"
	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// The annotations by which claims get volumes.
const (
	annotationProvisioner  = "volume.kubernetes.io/storage-provisioner"
	annotationSelectedNode = "volume.kubernetes.io/selected-node"
	annotationBound        = "pv.kubernetes.io/bind-completed"
	annotationByController = "pv.kubernetes.io/bound-by-controller"
)

// syncClaim asks for a volume, binds a claim to the volume that was made for it, or releases a deleted claim that no
// pod uses any more.
func (c *Controllers) syncClaim(key store.Key) error {
	claim, ok := read[*corev1.PersistentVolumeClaim](c, key)
	switch {
	case !ok:
		return nil
	case claim.DeletionTimestamp != nil:
		return c.releaseClaim(claim)
	case claim.Status.Phase == corev1.ClaimBound:
		return nil
	}
	for _, v := range list[*corev1.PersistentVolume](c, "") {
		if ref := v.Spec.ClaimRef; ref != nil && ref.UID == claim.UID && v.DeletionTimestamp == nil {
			return c.bindClaim(claim, v)
		}
	}
	class := c.classOf(claim)
	if class == nil || *class.VolumeBindingMode != storagev1.VolumeBindingImmediate && claim.Annotations[annotationSelectedNode] == "" {
		return nil // the scheduler chooses a node first
	}
	return change(c, claims, claim, "", func(live *corev1.PersistentVolumeClaim) {
		annotate(live, annotationProvisioner, class.Provisioner)
	})
}

// classOf returns the storage class of a claim, or nil.
func (c *Controllers) classOf(claim *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	if claim.Spec.StorageClassName == nil {
		return nil
	}
	class, _ := read[*storagev1.StorageClass](c, store.Key{Name: *claim.Spec.StorageClassName})
	return class
}

func annotate(o *corev1.PersistentVolumeClaim, name, value string) {
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Annotations[name] = value
}

func (c *Controllers) bindClaim(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) error {
	err := change(c, claims, v, "status", func(live *corev1.PersistentVolume) { live.Status.Phase = corev1.VolumeBound })
	if err != nil {
		return err
	}
	err = change(c, claims, claim, "", func(live *corev1.PersistentVolumeClaim) {
		live.Spec.VolumeName = v.Name
		annotate(live, annotationBound, "yes")
		annotate(live, annotationByController, "yes")
	})
	if err != nil {
		return err
	}
	return change(c, claims, claim, "status", func(live *corev1.PersistentVolumeClaim) {
		live.Status.Phase, live.Status.AccessModes, live.Status.Capacity = corev1.ClaimBound, v.Spec.AccessModes, v.Spec.Capacity
	})
}

// releaseClaim lets a deleted claim go, unless a pod uses it.
func (c *Controllers) releaseClaim(claim *corev1.PersistentVolumeClaim) error {
	if !hasFinalizer(claim, admission.FinalizerClaim) {
		return nil
	}
	for _, pod := range list[*corev1.Pod](c, claim.Namespace) {
		if slices.Contains(claimsOf(pod), claim.Name) {
			return nil // the end of the pod comes back here
		}
	}
	return c.withoutFinalizer(claims, claim, admission.FinalizerClaim)
}

// syncVolume releases a volume whose claim is gone, and lets a deleted volume go that has no claim.
func (c *Controllers) syncVolume(key store.Key) error {
	v, ok := read[*corev1.PersistentVolume](c, key)
	if !ok {
		return nil
	}
	claimed := false
	if ref := v.Spec.ClaimRef; ref != nil {
		claim, exists := read[*corev1.PersistentVolumeClaim](c, store.Key{Namespace: ref.Namespace, Name: ref.Name})
		claimed = exists && claim.UID == ref.UID
	}
	switch {
	case claimed:
		return nil
	case v.DeletionTimestamp != nil:
		return c.withoutFinalizer(volumes, v, admission.FinalizerVolume)
	}
	phase := corev1.VolumeReleased
	if v.Spec.ClaimRef == nil {
		phase = corev1.VolumeAvailable
	}
	if v.Status.Phase == phase {
		return nil
	}
	return change(c, volumes, v, "status", func(live *corev1.PersistentVolume) { live.Status.Phase = phase })
}
