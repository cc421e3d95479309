package gke

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The kinds of snapshot.storage.k8s.io, as far as this package writes and reads them. Their Go module would link the
// types of a controller.

// snapshotVersion is the API version of the kinds.
const snapshotVersion = "snapshot.storage.k8s.io/v1"

// The kinds.
const (
	kindSnapshot = "VolumeSnapshot"
	kindContent  = "VolumeSnapshotContent"
)

// annotationSnapshotDeleted is on contents whose VolumeSnapshot is deleted.
const annotationSnapshotDeleted = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted"

// retain is the deletion policy that keeps the data of a snapshot when its content is deleted.
const retain = "Retain"

func snapshotTarget(kind, namespace, name string) target {
	gvk := schema.FromAPIVersionAndKind(snapshotVersion, kind)
	return target{gvk: gvk, namespace: namespace, name: name}
}

// volumeSnapshot asks for a snapshot of a claim's volume, or names one that exists.
type volumeSnapshot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   volumeSnapshotSpec   `json:"spec"`
	Status volumeSnapshotStatus `json:"status"`
}

type volumeSnapshotSpec struct {
	Source volumeSnapshotSource `json:"source"`
	Class  string               `json:"volumeSnapshotClassName,omitempty"`
}

// volumeSnapshotSource is either a claim or a content that exists.
type volumeSnapshotSource struct {
	Claim   string `json:"persistentVolumeClaimName,omitempty"`
	Content string `json:"volumeSnapshotContentName,omitempty"`
}

type volumeSnapshotStatus struct {
	Content   string             `json:"boundVolumeSnapshotContentName,omitempty"`
	CutAt     *metav1.Time       `json:"creationTime,omitempty"`
	Ready     bool               `json:"readyToUse,omitempty"`
	Size      *resource.Quantity `json:"restoreSize,omitempty"`
	LastError *snapshotError     `json:"error,omitempty"`
}

// snapshotError is why the last attempt of the storage failed.
type snapshotError struct {
	Message string `json:"message,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (s *volumeSnapshot) DeepCopyObject() runtime.Object {
	copied := *s
	copied.ObjectMeta = *s.DeepCopy()
	return &copied
}

// volumeSnapshotList is a list of them.
type volumeSnapshotList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []volumeSnapshot `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *volumeSnapshotList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.Items = append([]volumeSnapshot(nil), l.Items...)
	return &copied
}

// volumeSnapshotContent is a snapshot as the storage knows it. It is in no namespace.
type volumeSnapshotContent struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   volumeSnapshotContentSpec   `json:"spec"`
	Status volumeSnapshotContentStatus `json:"status"`
}

type volumeSnapshotContentSpec struct {
	DeletionPolicy string                `json:"deletionPolicy"`
	Driver         string                `json:"driver"`
	Source         snapshotContentSource `json:"source"`
	Snapshot       snapshotReference     `json:"volumeSnapshotRef"`
}

type snapshotContentSource struct {
	Handle string `json:"snapshotHandle,omitempty"`
}

// snapshotReference names the only VolumeSnapshot that may have the content.
type snapshotReference struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
}

type volumeSnapshotContentStatus struct {
	Handle string `json:"snapshotHandle,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (c *volumeSnapshotContent) DeepCopyObject() runtime.Object {
	copied := *c
	copied.ObjectMeta = *c.DeepCopy()
	return &copied
}
