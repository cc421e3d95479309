package kubeclient

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The copies that the types of objects must make of themselves.

func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

// DeepCopyObject implements runtime.Object.
func (o *VolumeSnapshot) DeepCopyObject() runtime.Object { return o.DeepCopy() }

// DeepCopy copies the object.
func (o *VolumeSnapshot) DeepCopy() *VolumeSnapshot {
	out := *o
	out.ObjectMeta = *o.ObjectMeta.DeepCopy()
	out.Spec.Source.Claim, out.Spec.Source.Content = copyOf(o.Spec.Source.Claim), copyOf(o.Spec.Source.Content)
	out.Spec.Class = copyOf(o.Spec.Class)
	if s := o.Status; s != nil {
		out.Status = &VolumeSnapshotStatus{
			Content: copyOf(s.Content), CreationTime: s.CreationTime.DeepCopy(), Ready: copyOf(s.Ready),
			Error: s.Error.deepCopy(),
		}
		if s.RestoreSize != nil {
			out.Status.RestoreSize = new(s.RestoreSize.DeepCopy())
		}
	}
	return &out
}

func (e *VolumeSnapshotError) deepCopy() *VolumeSnapshotError {
	if e == nil {
		return nil
	}
	return &VolumeSnapshotError{Time: e.Time.DeepCopy(), Message: copyOf(e.Message)}
}

// DeepCopyObject implements runtime.Object.
func (o *VolumeSnapshotContent) DeepCopyObject() runtime.Object { return o.DeepCopy() }

// DeepCopy copies the object.
func (o *VolumeSnapshotContent) DeepCopy() *VolumeSnapshotContent {
	out := *o
	out.ObjectMeta = *o.ObjectMeta.DeepCopy()
	out.Spec.Source.Volume, out.Spec.Source.Snapshot = copyOf(o.Spec.Source.Volume), copyOf(o.Spec.Source.Snapshot)
	out.Spec.Class, out.Spec.Mode = copyOf(o.Spec.Class), copyOf(o.Spec.Mode)
	if s := o.Status; s != nil {
		out.Status = &VolumeSnapshotContentStatus{
			Handle: copyOf(s.Handle), CreationTime: copyOf(s.CreationTime), RestoreSize: copyOf(s.RestoreSize),
			Ready: copyOf(s.Ready), Error: s.Error.deepCopy(),
		}
	}
	return &out
}

// DeepCopyObject implements runtime.Object.
func (o *VolumeSnapshotClass) DeepCopyObject() runtime.Object { return o.DeepCopy() }

// DeepCopy copies the object.
func (o *VolumeSnapshotClass) DeepCopy() *VolumeSnapshotClass {
	out := *o
	out.ObjectMeta = *o.ObjectMeta.DeepCopy()
	out.Parameters = maps.Clone(o.Parameters)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *VolumeSnapshotList) DeepCopyObject() runtime.Object {
	out := *l
	out.ListMeta = copyMeta(l)
	out.Items = copyItems(l.Items, (*VolumeSnapshot).DeepCopy)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *VolumeSnapshotContentList) DeepCopyObject() runtime.Object {
	out := *l
	out.ListMeta = copyMeta(l)
	out.Items = copyItems(l.Items, (*VolumeSnapshotContent).DeepCopy)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *VolumeSnapshotClassList) DeepCopyObject() runtime.Object {
	out := *l
	out.ListMeta = copyMeta(l)
	out.Items = copyItems(l.Items, (*VolumeSnapshotClass).DeepCopy)
	return &out
}

func copyItems[T any](items []T, deepCopy func(*T) *T) []T {
	if items == nil {
		return nil
	}
	out := make([]T, len(items))
	for i := range items {
		out[i] = *deepCopy(&items[i])
	}
	return out
}

// copyMeta copies what a list says of itself.
func copyMeta(l metav1.ListInterface) metav1.ListMeta {
	return metav1.ListMeta{
		ResourceVersion: l.GetResourceVersion(), Continue: l.GetContinue(),
		RemainingItemCount: copyOf(l.GetRemainingItemCount()),
	}
}
