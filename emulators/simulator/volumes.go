package simulator

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// provisioner is the name that the volume binder uses for the simulator.
	provisioner = domain + "/volume"
	// storageClass is the name of the default class on GKE.
	storageClass = "standard-rwo"

	annotationDefaultClass  = "storageclass.kubernetes.io/is-default-class"
	annotationProvisioner   = "volume.kubernetes.io/storage-provisioner"
	annotationProvisionedBy = "pv.kubernetes.io/provisioned-by"
)

func (s *Simulator) ensureStorageClass(ctx context.Context) error {
	binding, reclaim, expand := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete, true
	_, err := s.client.StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:        storageClass,
			Annotations: map[string]string{annotationDefaultClass: "true"},
		},
		Provisioner: provisioner, VolumeBindingMode: &binding, ReclaimPolicy: &reclaim, AllowVolumeExpansion: &expand,
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the default storage class: %w", err)
	}
	return nil
}

// syncClaim gives a claim its volume when the binder requests it by annotation: immediately or, for
// WaitForFirstConsumer, when the scheduler has chosen a node. It expands a bound claim that requests more than it has.
func (s *Simulator) syncClaim(ctx context.Context, key string) error {
	claim, ok := s.watched.claims.Get(key)
	if !ok {
		return nil
	}
	switch {
	case claim.DeletionTimestamp != nil || claim.Annotations[annotationProvisioner] != provisioner:
		return nil
	case claim.Spec.VolumeName == "":
		volume := volumeOf(claim)
		if done, err := s.restore(ctx, claim, volume.Name); err != nil {
			return err
		} else if !done {
			s.claimQueue.keys.AddAfter(key, snapshotRetry)
			return nil
		}
		if s.options.NodeSocket != "" {
			if err := s.makeLocal(volume); err != nil {
				return err
			}
		}
		_, err := s.client.PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	case claim.Status.Phase == corev1.ClaimBound:
		return s.expand(ctx, claim)
	}
	return nil
}

func volumeOf(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        volumePrefix + string(claim.UID),
			Annotations: map[string]string{annotationProvisionedBy: provisioner},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes: claim.Spec.AccessModes, VolumeMode: claim.Spec.VolumeMode,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name,
				UID:             claim.UID,
				ResourceVersion: claim.ResourceVersion,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver:       snapshotDriver,
				VolumeHandle: string(claim.UID),
			}},
		},
	}
	if claim.Spec.StorageClassName != nil {
		volume.Spec.StorageClassName = *claim.Spec.StorageClassName
	}
	return volume
}

// makeLocal makes a volume one that containers can mount: the directory that pods which run as processes use. A
// kubelet applies fsGroup to a local volume, but not to one of hostPath; neither enforces the size. A local volume must
// have an affinity. Any node may use this one, so that a pod keeps its data when a fault moves it to a simulated node.
func (s *Simulator) makeLocal(volume *corev1.PersistentVolume) error {
	dir, err := s.runtime.MakeVolume(volume.Name)
	if err != nil {
		return err
	}
	volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpExists,
		}}}},
	}}
	return nil
}

// expand acts as a resizer and the kubelet: it expands the volume first, then the capacity of the claim.
func (s *Simulator) expand(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	wanted, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	if wanted.Cmp(has) <= 0 {
		return nil
	}
	volume, ok := s.watched.volumes.Get(claim.Spec.VolumeName)
	if !ok {
		return fmt.Errorf("volume %s of the claim is not known yet", claim.Spec.VolumeName)
	}
	volume = volume.DeepCopy()
	volume.Spec.Capacity[corev1.ResourceStorage] = wanted
	if _, err := s.client.PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{}); err != nil {
		return err
	}
	claim = claim.DeepCopy()
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: wanted}
	_, err := s.client.PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return ignoreGone(err)
}

// pruneVolumes removes the directories of volumes that were deleted while no simulator ran.
func (s *Simulator) pruneVolumes() error {
	names, err := s.runtime.Volumes()
	for _, name := range names {
		if _, ok := s.watched.volumes.Get(name); !ok {
			err = errors.Join(err, s.runtime.RemoveVolume(name))
		}
	}
	return err
}

// syncVolume deletes a simulated volume whose claim is gone, and the directory of a volume that is gone.
func (s *Simulator) syncVolume(ctx context.Context, name string) error {
	volume, ok := s.watched.volumes.Get(name)
	if !ok {
		return s.runtime.RemoveVolume(name)
	}
	if volume.Annotations[annotationProvisionedBy] != provisioner || volume.Status.Phase != corev1.VolumeReleased ||
		volume.DeletionTimestamp != nil {
		return nil
	}
	return ignoreGone(s.client.PersistentVolumes().Delete(ctx, name, metav1.DeleteOptions{}))
}
