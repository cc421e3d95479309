package gke

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// volumeName is the name of the agent's claim, and of the volume in its pod.
const volumeName = "data"

// volumeClaim asks for the agent's volume. It is no template of the StatefulSet, so that scaling, or replacing the
// StatefulSet, never touches it.
func (b blueprint) volumeClaim() object {
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta: typed("v1", "PersistentVolumeClaim"), ObjectMeta: b.named(volumeName),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: size(b.plan.StorageBytes())},
			},
		},
	}
	if b.settings.StorageClass != "" {
		claim.Spec.StorageClassName = &b.settings.StorageClass
	}
	return claim
}

// keepVolume makes a claim that the API server refused agree with the volume that is there: its class can't change any
// more, and it can't shrink. Otherwise a new setting, or a plan that offers less, would keep older agents from
// starting. It reports whether there was anything to agree on.
func (c *client) keepVolume(ctx context.Context, claim *corev1.PersistentVolumeClaim) (changed bool, err error) {
	var live corev1.PersistentVolumeClaim
	if err := c.get(ctx, targetOf(claim), &live); err != nil {
		return false, err
	}
	if class := live.Spec.StorageClassName; class != nil &&
		(claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName != *class) {
		claim.Spec.StorageClassName, changed = class, true
	}
	asked, has := claim.Spec.Resources.Requests[corev1.ResourceStorage],
		live.Spec.Resources.Requests[corev1.ResourceStorage]
	if has.Cmp(asked) > 0 {
		claim.Spec.Resources.Requests[corev1.ResourceStorage], changed = has, true
	}
	return changed, nil
}
