package gke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

var _ provisioning.Volumes = (*Clusters)(nil)

const (
	// snapshotClass is the VolumeSnapshotClass of all agents, and snapshotDriver its driver; see
	// terraform/cell/snapshots.yaml.
	snapshotClass  = "agents"
	snapshotDriver = "pd.csi.storage.gke.io"
	// snapshotPrefix begins the names of the VolumeSnapshots that agents' records have.
	snapshotPrefix = "snapshot-"
	// labelSnapshot is the name of the VolumeSnapshot, on its content. Contents are in no namespace, and the API server
	// cannot select them by what they refer to.
	labelSnapshot = "agents.example/snapshot"
	// codeSnapshotGone is for a snapshot that the record has and the cluster does not.
	codeSnapshotGone = "snapshot_gone"
	// maxStorageText bounds how much of the storage's text is passed on.
	maxStorageText = 200
)

// snapshotName is the name of the VolumeSnapshot of a snapshot of the agent's own.
func snapshotName(a agent.Agent, id string) (string, error) {
	owner, suffix, ok := agent.SnapshotOwner(id)
	if !ok || owner != a.ID {
		return "", fault.New(fault.Internal, "internal_error", "%s is no snapshot of agent %s.", id, a.ID)
	}
	return snapshotPrefix + suffix, nil
}

// Snapshot implements provisioning.Volumes. The pod is read before the snapshot: a snapshot that is not cut at a time
// after a pod began to use the volume is not quiet.
func (c *Clusters) Snapshot(ctx context.Context, a agent.Agent, s agent.Snapshot, quiet bool) (
	agent.SnapshotState, error,
) {
	client, name, err := c.snapshotOf(a, s)
	if err != nil {
		return agent.SnapshotState{}, err
	}
	var user *corev1.Pod
	if quiet {
		if user, err = client.volumeUser(ctx, a, s.Volume); err != nil {
			return agent.SnapshotState{}, err
		}
	}
	t := snapshotTarget(kindSnapshot, a.Namespace(), name)
	var there volumeSnapshot
	err = client.get(ctx, t, &there)
	switch {
	case apierrors.IsNotFound(err):
		return agent.SnapshotState{}, client.takeSnapshot(ctx, a, s, name, user)
	case err != nil:
		return agent.SnapshotState{}, explain(err, t)
	case there.DeletionTimestamp != nil:
		return agent.SnapshotState{}, fault.New(fault.Unavailable, codeSnapshotGone,
			"An earlier attempt of the snapshot is still being deleted.")
	case disturbed(&there, user):
		return agent.SnapshotState{}, client.dropDisturbed(ctx, t, there.UID)
	}
	return client.snapshotState(ctx, a, s, &there)
}

// snapshotOf returns the client of an agent's cell, and the name of a VolumeSnapshot.
func (c *Clusters) snapshotOf(a agent.Agent, s agent.Snapshot) (*client, string, error) {
	client, err := c.client(a.Cell)
	if err != nil {
		return nil, "", err
	}
	name, err := snapshotName(a, s.ID)
	return client, name, err
}

// volumeUser returns the agent's pod if its specification has the volume, also while it terminates; nil otherwise.
func (c *client) volumeUser(ctx context.Context, a agent.Agent, number int64) (*corev1.Pod, error) {
	t := core("Pod", a.Namespace(), podName)
	pod := &corev1.Pod{}
	if err := c.get(ctx, t, pod); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, explain(err, t)
	}
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil && claim.ClaimName == claimName(number) {
			return pod, nil
		}
	}
	return nil, nil
}

// takeSnapshot asks for a snapshot that the cluster does not have.
func (c *client) takeSnapshot(ctx context.Context, a agent.Agent, s agent.Snapshot, name string,
	user *corev1.Pod,
) error {
	switch {
	case !s.CutAt.IsZero(): // another one would have other data
		return &provisioning.Permanent{
			Code: codeSnapshotGone, Message: "The snapshot no longer exists on the agent's cluster.",
		}
	case user != nil:
		return provisioning.ErrVolumeInUse
	}
	b := blueprint{agent: a}
	o := &volumeSnapshot{
		TypeMeta: typed(snapshotVersion, kindSnapshot), ObjectMeta: b.named(name),
		Spec: volumeSnapshotSpec{
			Source: volumeSnapshotSource{Claim: claimName(s.Volume)}, Class: snapshotClass,
		},
	}
	if err := c.create(ctx, targetOf(o), o); err != nil && !apierrors.IsAlreadyExists(err) {
		return explain(err, targetOf(o))
	}
	return nil
}

// disturbed reports whether a pod used the volume before the snapshot was cut. Pods tell their start in whole seconds,
// so one that started in the second of the cut is believed to be later.
func disturbed(s *volumeSnapshot, user *corev1.Pod) bool {
	if user == nil || user.Status.StartTime == nil {
		return false
	}
	cut := s.Status.CutAt
	return cut == nil || !user.Status.StartTime.Add(time.Second).After(cut.Time)
}

// dropDisturbed deletes a snapshot that is not quiet, so that another one is taken once the pod has ended.
func (c *client) dropDisturbed(ctx context.Context, t target, uid types.UID) error {
	if err := c.delete(ctx, t, uid); err != nil && !apierrors.IsNotFound(err) {
		return explain(err, t)
	}
	return provisioning.ErrVolumeInUse
}

// snapshotState reads what the cluster knows of a snapshot. It is cut once the storage's name for it is known.
func (c *client) snapshotState(ctx context.Context, a agent.Agent, s agent.Snapshot, there *volumeSnapshot) (
	agent.SnapshotState, error,
) {
	seen := agent.SnapshotState{Handle: s.Handle, Problem: storageProblem(there)}
	if seen.Handle == "" && there.Status.Content != "" {
		t := snapshotTarget(kindContent, "", there.Status.Content)
		var content volumeSnapshotContent
		if err := c.get(ctx, t, &content); err != nil && !apierrors.IsNotFound(err) {
			return agent.SnapshotState{}, explain(err, t)
		}
		seen.Handle = content.Status.Handle
		if err := c.ownContent(ctx, a, there); err != nil {
			return agent.SnapshotState{}, err
		}
	}
	if cut := there.Status.CutAt; cut == nil || seen.Handle == "" {
		seen.Handle = ""
		return seen, nil
	}
	seen.CutAt = there.Status.CutAt.Time
	if size := there.Status.Size; there.Status.Ready && size != nil {
		seen.Ready, seen.SizeBytes, seen.Problem = true, size.Value(), ""
	}
	return seen, nil
}

// storageProblem says why the storage has not taken a snapshot.
func storageProblem(s *volumeSnapshot) string {
	if s.Status.LastError == nil || s.Status.Ready {
		return ""
	}
	text := strings.ToLower(s.Status.LastError.Message)
	if strings.Contains(text, "operation rate exceeded") || strings.Contains(text, "operation_rate_exceeded") ||
		strings.Contains(text, "ratelimitexceeded") {
		return "The cluster's storage takes only a few snapshots of a volume in an hour. It takes this one later."
	}
	said := s.Status.LastError.Message
	if len(said) > maxStorageText {
		said = strings.ToValidUTF8(said[:maxStorageText], "") + "..."
	}
	return "The cluster's storage has not taken the snapshot yet: " + said
}

// ownContent labels the content of a VolumeSnapshot, so that it is found when the VolumeSnapshot is gone.
func (c *client) ownContent(ctx context.Context, a agent.Agent, s *volumeSnapshot) error {
	t := snapshotTarget(kindContent, "", contentName(s))
	labels := blueprint{agent: a}.labels()
	labels[labelSnapshot] = s.Name
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return fmt.Errorf("encode labels: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = c.objects.patch(ctx, t, patch{kind: types.MergePatchType, body: body},
		metav1.PatchOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return explain(err, t)
}

// contentName is the name of the content of a VolumeSnapshot. The snapshot controller names those that it makes by the
// uid, before the VolumeSnapshot says so.
func contentName(s *volumeSnapshot) string {
	switch {
	case s.Status.Content != "":
		return s.Status.Content
	case s.Spec.Source.Content != "":
		return s.Spec.Source.Content
	default:
		return "snapcontent-" + string(s.UID)
	}
}

// DeleteSnapshot implements provisioning.Volumes. The content of a VolumeSnapshot is gone once the storage has deleted
// the data.
func (c *Clusters) DeleteSnapshot(ctx context.Context, a agent.Agent, s agent.Snapshot) (gone bool, err error) {
	client, name, err := c.snapshotOf(a, s)
	if err != nil {
		return false, err
	}
	t := snapshotTarget(kindSnapshot, a.Namespace(), name)
	var there volumeSnapshot
	err = client.get(ctx, t, &there)
	switch {
	case apierrors.IsNotFound(err):
		return c.deleteLeft(ctx, a, s)
	case err != nil:
		return false, explain(err, t)
	case there.DeletionTimestamp != nil:
		return false, nil
	}
	if there.Spec.Source.Content != "" { // adopted, perhaps by a slow worker
		err = c.RetainSnapshot(ctx, a, s, false)
	} else {
		err = client.ownContent(ctx, a, &there)
	}
	switch {
	case errors.Is(err, provisioning.ErrSnapshotUnbound): // the next attempt finds it bound
		return false, nil
	case err != nil:
		return false, err
	}
	if err := client.delete(ctx, t, there.UID); err != nil && !apierrors.IsNotFound(err) {
		return false, explain(err, t)
	}
	return false, nil
}

// deleteLeft deletes the content that a VolumeSnapshot has left, with its data, and reports whether there is none.
// Example: a late worker adopts a snapshot while another one deletes it.
func (c *Clusters) deleteLeft(ctx context.Context, a agent.Agent, s agent.Snapshot) (gone bool, err error) {
	client, name, err := c.snapshotOf(a, s)
	if err != nil {
		return false, err
	}
	contents, err := client.contents(ctx, a, name)
	if err != nil || len(contents) == 0 {
		return err == nil, err
	}
	for i := range contents {
		if contents[i].DeletionTimestamp == nil {
			if err := c.RetainSnapshot(ctx, a, s, false); err != nil {
				return false, err
			}
		}
		if err := client.deleteLeftContent(ctx, &contents[i]); err != nil {
			return false, err
		}
	}
	return false, nil
}

// contents lists the metadata of the contents of an agent's VolumeSnapshots; with a name, of that one only.
func (c *client) contents(ctx context.Context, a agent.Agent, name string) ([]metav1.PartialObjectMetadata, error) {
	t := snapshotTarget(kindContent, "", "")
	selector := labelManagedBy + "=" + fieldManager + "," + labelAgent + "=" + a.ID
	if name != "" {
		selector += "," + labelSnapshot + "=" + name
	}
	var found []metav1.PartialObjectMetadata
	err := c.listMetadata(ctx, t, selector, func() { found = nil }, func(o *metav1.PartialObjectMetadata) {
		found = append(found, *o)
	})
	return found, explain(err, t)
}

// DeleteVolume implements provisioning.Volumes. The disk goes with the claim; CheckGone sees those that are left.
func (c *Clusters) DeleteVolume(ctx context.Context, a agent.Agent, number int64) (gone bool, err error) {
	client, err := c.client(a.Cell)
	if err != nil {
		return false, err
	}
	if number >= a.Volume.Number {
		return false, fault.New(fault.Internal, "internal_error", "The agent %s may use its volume %d.", a.ID, number)
	}
	user, err := client.volumeUser(ctx, a, number)
	if err != nil {
		return false, err
	}
	if user != nil {
		return false, provisioning.ErrVolumeInUse
	}
	return client.deleteClaim(ctx, core("PersistentVolumeClaim", a.Namespace(), claimName(number)))
}

// deleteClaim begins the deletion of a claim, and reports whether it is gone.
func (c *client) deleteClaim(ctx context.Context, t target) (gone bool, err error) {
	claim, err := c.getMetadata(ctx, t)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, explain(err, t)
	case claim.DeletionTimestamp != nil:
		return false, nil
	}
	if err := c.delete(ctx, t, claim.UID); err != nil && !apierrors.IsNotFound(err) {
		return false, explain(err, t)
	}
	return false, nil
}
