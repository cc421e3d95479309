package gke

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/shared/provisioning"
)

// volumeName is the name of the agent's first claim, and of the volume in its pod.
const volumeName = "data"

// claimName is the name of the claim for a volume. A pod names its claim, so that no slow worker gives it another one.
func claimName(number int64) string {
	if number == 0 {
		return volumeName
	}
	return volumeName + "-" + strconv.FormatInt(number, 10)
}

// volumeClaim asks for the agent's volume. It is no template of the StatefulSet, so that scaling, or replacing the
// StatefulSet, never touches it.
func (b blueprint) volumeClaim() object {
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta: typed("v1", "PersistentVolumeClaim"), ObjectMeta: b.named(claimName(b.agent.Volume.Number)),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			DataSource:  b.dataSource(),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: size(b.volumeBytes())},
			},
		},
	}
	if b.settings.StorageClass != "" {
		claim.Spec.StorageClassName = &b.settings.StorageClass
	}
	return claim
}

// requireVolume makes the apply of a claim fail if it does not exist: the API server makes no object that has a uid.
func (c *client) requireVolume(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	t := targetOf(claim)
	live, err := c.getMetadata(ctx, t)
	switch {
	case apierrors.IsNotFound(err):
		return missing("volume").WithCause(err)
	case err != nil:
		return explain(err, t)
	}
	claim.UID = live.UID
	return nil
}

// applyKept applies a claim that the API server refused, with what can't change any more. Otherwise a new setting, or a
// plan that offers less, would keep older agents from starting. Errors: provisioning.ErrVolumeUnbound if the claim
// could not grow.
func (c *client) applyKept(ctx context.Context, claim *corev1.PersistentVolumeClaim, refusal error) (
	*metav1.PartialObjectMetadata, error,
) {
	t := targetOf(claim)
	var live corev1.PersistentVolumeClaim
	if err := c.get(ctx, t, &live); err != nil {
		if apierrors.IsNotFound(err) {
			err = refusal
		}
		return nil, explain(err, t)
	}
	changed, unbound := keepVolume(claim, &live)
	if !changed {
		return nil, explain(refusal, t)
	}
	now, err := c.applyOnce(ctx, claim)
	if err == nil && unbound {
		return nil, provisioning.ErrVolumeUnbound
	}
	return now, explain(err, t)
}

// keepVolume makes a claim agree with the volume that is there: its class and its source can't change any more, and it
// can't shrink. Nor can it grow before it is made. It reports whether there was anything to agree on, and whether the
// claim could not grow.
func keepVolume(claim, live *corev1.PersistentVolumeClaim) (changed, unbound bool) {
	if class := live.Spec.StorageClassName; class != nil &&
		(claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName != *class) {
		claim.Spec.StorageClassName, changed = class, true
	}
	if !equality.Semantic.DeepEqual(claim.Spec.DataSource, live.Spec.DataSource) {
		claim.Spec.DataSource, changed = live.Spec.DataSource, true
	}
	asked, has := claim.Spec.Resources.Requests[corev1.ResourceStorage],
		live.Spec.Resources.Requests[corev1.ResourceStorage]
	unbound = has.Cmp(asked) < 0 && live.Status.Phase != corev1.ClaimBound
	if has.Cmp(asked) > 0 || unbound {
		claim.Spec.Resources.Requests[corev1.ResourceStorage], changed = has, true
	}
	return changed, unbound
}
