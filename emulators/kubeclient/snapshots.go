package kubeclient

import (
	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SnapshotVersion is the API group of snapshots of volumes. Its types are not part of Kubernetes. The library that has
// them links the clients of all their versions, so the fields that have users are here.
//
//nolint:gochecknoglobals // as the versions of k8s.io/api
var SnapshotVersion = schema.GroupVersion{Group: "snapshot.storage.k8s.io", Version: "v1"}

// VolumeSnapshot asks for a snapshot of a volume.
type VolumeSnapshot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   VolumeSnapshotSpec    `json:"spec"`
	Status *VolumeSnapshotStatus `json:"status,omitempty"`
}

// VolumeSnapshotSpec says of which volume, and by which class.
type VolumeSnapshotSpec struct {
	Source VolumeSnapshotSource `json:"source"`
	Class  *string              `json:"volumeSnapshotClassName,omitempty"`
}

// VolumeSnapshotSource is either a claim, whose volume is taken, or a content that exists.
type VolumeSnapshotSource struct {
	Claim   *string `json:"persistentVolumeClaimName,omitempty"`
	Content *string `json:"volumeSnapshotContentName,omitempty"`
}

// VolumeSnapshotStatus is how far a snapshot is.
type VolumeSnapshotStatus struct {
	Content      *string              `json:"boundVolumeSnapshotContentName,omitempty"`
	CreationTime *metav1.Time         `json:"creationTime,omitempty"`
	Ready        *bool                `json:"readyToUse,omitempty"`
	RestoreSize  *quantity.Quantity   `json:"restoreSize,omitempty"`
	Error        *VolumeSnapshotError `json:"error,omitempty"`
}

// VolumeSnapshotError is why the last attempt failed.
type VolumeSnapshotError struct {
	Time    *metav1.Time `json:"time,omitempty"`
	Message *string      `json:"message,omitempty"`
}

// VolumeSnapshotContent is a snapshot that storage has.
type VolumeSnapshotContent struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   VolumeSnapshotContentSpec    `json:"spec"`
	Status *VolumeSnapshotContentStatus `json:"status,omitempty"`
}

// VolumeSnapshotContentSpec says what storage has, and for which VolumeSnapshot.
type VolumeSnapshotContentSpec struct {
	Snapshot       corev1.ObjectReference      `json:"volumeSnapshotRef"`
	DeletionPolicy string                      `json:"deletionPolicy"`
	Driver         string                      `json:"driver"`
	Class          *string                     `json:"volumeSnapshotClassName,omitempty"`
	Source         VolumeSnapshotContentSource `json:"source"`
	Mode           *string                     `json:"sourceVolumeMode,omitempty"`
}

// VolumeSnapshotContentSource is either a volume or a snapshot that exists.
type VolumeSnapshotContentSource struct {
	Volume   *string `json:"volumeHandle,omitempty"`
	Snapshot *string `json:"snapshotHandle,omitempty"`
}

// VolumeSnapshotContentStatus is what storage reports.
type VolumeSnapshotContentStatus struct {
	Handle       *string              `json:"snapshotHandle,omitempty"`
	CreationTime *int64               `json:"creationTime,omitempty"` // nanoseconds since 1970
	RestoreSize  *int64               `json:"restoreSize,omitempty"`
	Ready        *bool                `json:"readyToUse,omitempty"`
	Error        *VolumeSnapshotError `json:"error,omitempty"`
}

// VolumeSnapshotClass says how snapshots are taken.
type VolumeSnapshotClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Driver         string            `json:"driver"`
	Parameters     map[string]string `json:"parameters,omitempty"`
	DeletionPolicy string            `json:"deletionPolicy"`
}

// VolumeSnapshotList has VolumeSnapshots.
type VolumeSnapshotList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []VolumeSnapshot `json:"items"`
}

// VolumeSnapshotContentList has VolumeSnapshotContents.
type VolumeSnapshotContentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []VolumeSnapshotContent `json:"items"`
}

// VolumeSnapshotClassList has VolumeSnapshotClasses.
type VolumeSnapshotClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []VolumeSnapshotClass `json:"items"`
}

// AddSnapshotsToScheme registers the types.
func AddSnapshotsToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(SnapshotVersion, &VolumeSnapshot{}, &VolumeSnapshotList{}, &VolumeSnapshotContent{},
		&VolumeSnapshotContentList{}, &VolumeSnapshotClass{}, &VolumeSnapshotClassList{})
	metav1.AddToGroupVersion(s, SnapshotVersion)
	return nil
}

// snapshotModel begins the names of the types in schemas.
const snapshotModel = "io.k8s.storage.snapshot.v1."

// OpenAPIModelName names the type in schemas.
func (VolumeSnapshot) OpenAPIModelName() string { return snapshotModel + "VolumeSnapshot" }

// OpenAPIModelName names the type in schemas.
func (VolumeSnapshotContent) OpenAPIModelName() string {
	return snapshotModel + "VolumeSnapshotContent"
}

// OpenAPIModelName names the type in schemas.
func (VolumeSnapshotClass) OpenAPIModelName() string { return snapshotModel + "VolumeSnapshotClass" }

// VolumeSnapshots returns the client of VolumeSnapshots in a namespace.
func (c *Client) VolumeSnapshots(namespace string) Kind[*VolumeSnapshot, *VolumeSnapshotList] {
	return kindOf[VolumeSnapshot, VolumeSnapshotList](c,
		resource{SnapshotVersion, "volumesnapshots", "VolumeSnapshot"}, namespace)
}

// VolumeSnapshotContents returns the client of VolumeSnapshotContents of the cluster.
func (c *Client) VolumeSnapshotContents() Kind[*VolumeSnapshotContent, *VolumeSnapshotContentList] {
	return kindOf[VolumeSnapshotContent, VolumeSnapshotContentList](c,
		resource{SnapshotVersion, "volumesnapshotcontents", "VolumeSnapshotContent"}, "")
}

// VolumeSnapshotClasses returns the client of VolumeSnapshotClasses of the cluster.
func (c *Client) VolumeSnapshotClasses() Kind[*VolumeSnapshotClass, *VolumeSnapshotClassList] {
	return kindOf[VolumeSnapshotClass, VolumeSnapshotClassList](c,
		resource{SnapshotVersion, "volumesnapshotclasses", "VolumeSnapshotClass"}, "")
}
