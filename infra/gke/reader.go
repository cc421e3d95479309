package gke

import (
	"context"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/provisioning"
)

var _ provisioning.Readers = (*Clusters)(nil)

const (
	// readerName names the StatefulSet and the NetworkPolicy of the reader, and its pods by their label.
	readerName = "reader"
	// readerMemoryMiB is for volumes with very many files in one directory.
	readerMemoryMiB = 128
	readerCPULimit  = 1000 // millicores
)

// ApplyReader implements provisioning.Readers. The quota and the policies come first: those of a former release have no
// room for the reader, or let its pod reach the internet. The StatefulSet comes before the claim, so that a worker that
// is late, whose StatefulSet the API server refuses, makes no claim that no other worker knows of.
func (c *Clusters) ApplyReader(ctx context.Context, a agent.Agent, s agent.Snapshot) error {
	client, err := c.client(a.Cell)
	if err != nil {
		return err
	}
	b, err := c.blueprint(a, provisioning.RuntimeInput{})
	if err != nil {
		return err
	}
	_, suffix, _ := agent.SnapshotOwner(s.ID)
	err = client.requireSnapshot(ctx, snapshotTarget(kindSnapshot, a.Namespace(), snapshotPrefix+suffix),
		"The snapshot no longer exists on the agent's cluster, and so cannot be exported. A clone with from_snapshot "+
			"has its data, if the storage still has it.")
	if err != nil {
		return err
	}
	objects, err := b.objects(agent.StagePolicy)
	if err != nil {
		return err
	}
	for _, o := range append(objects, b.readerPolicy(), b.reader(s.ID, true), b.readerClaim(s)) {
		if _, err := client.apply(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// DeleteReader implements provisioning.Readers. The StatefulSet stays without a pod: workers delete no workload.
func (c *Clusters) DeleteReader(ctx context.Context, a agent.Agent, snapshotIDs []string) (gone bool, err error) {
	client, err := c.client(a.Cell)
	if err != nil {
		return false, err
	}
	b, err := c.blueprint(a, provisioning.RuntimeInput{})
	if err != nil {
		return false, err
	}
	_, err = client.apply(ctx, b.reader(a.Reader.SnapshotID, false))
	switch {
	case fault.Code(err) == provisioning.CodeNamespaceMissing: // all of it went with the namespace
		return true, nil
	case err != nil:
		return false, err
	}
	gone = true
	for _, id := range snapshotIDs {
		one, err := client.deleteClaim(ctx, core("PersistentVolumeClaim", a.Namespace(), readerClaimName(id)))
		if err != nil {
			return false, err
		}
		gone = gone && one
	}
	return gone, nil
}

// readerClaimName names the claim of the reader of one snapshot: a claim keeps its source.
func readerClaimName(snapshotID string) string {
	_, suffix, _ := agent.SnapshotOwner(snapshotID)
	return readerName + "-" + suffix
}

// readerLabels are those of everything of the reader. What selects the agent's pod does not select its pod.
func (b blueprint) readerLabels() map[string]string {
	labels := b.labels()
	labels[labelName] = readerName
	return labels
}

func (b blueprint) readerMeta(name string) metav1.ObjectMeta {
	meta := b.named(name)
	meta.Labels = b.readerLabels()
	return meta
}

// readerPolicy lets the reader reach nothing, and nothing reach it. The API server runs commands in its pod by way of
// the kubelet.
func (b blueprint) readerPolicy() object {
	return &networkingv1.NetworkPolicy{
		TypeMeta: typed("networking.k8s.io/v1", "NetworkPolicy"), ObjectMeta: b.readerMeta(readerName),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{labelName: readerName}},
			PolicyTypes: []networkingv1.PolicyType{
				networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress,
			},
		},
	}
}

// readerClaim asks for a volume with the data of a snapshot.
func (b blueprint) readerClaim(s agent.Snapshot) object {
	_, suffix, _ := agent.SnapshotOwner(s.ID)
	bytes := s.SizeBytes
	if bytes == 0 {
		bytes = b.plan.StorageBytes()
	}
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta: typed("v1", "PersistentVolumeClaim"), ObjectMeta: b.readerMeta(readerClaimName(s.ID)),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: size(bytes)},
			},
			DataSource: snapshotSource(snapshotPrefix + suffix),
		},
	}
	if b.settings.StorageClass != "" {
		claim.Spec.StorageClassName = &b.settings.StorageClass
	}
	return claim
}

// reader runs the pod that has the copy of a snapshot, or none.
func (b blueprint) reader(snapshotID string, runs bool) *appsv1.StatefulSet {
	replicas := int32(0)
	if runs {
		replicas = 1
	}
	meta := b.readerMeta(readerName)
	meta.Annotations = map[string]string{
		annotationGeneration: strconv.FormatInt(b.agent.Reader.Generation(runs), 10),
	}
	return &appsv1.StatefulSet{
		TypeMeta: typed("apps/v1", "StatefulSet"), ObjectMeta: meta,
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: readerName,
			Selector:             &metav1.LabelSelector{MatchLabels: map[string]string{labelName: readerName}},
			Template:             b.readerPod(snapshotID),
			PodManagementPolicy:  appsv1.ParallelPodManagement,
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType},
			RevisionHistoryLimit: new(int32(1)),
		},
	}
}

// readerPod runs the platform's program, which only waits until a command reads the volume. The kubelet lets the
// volume's group read every file: the program does not run as the agent's user. It is the program of this release,
// whatever front the agent was started with.
func (b blueprint) readerPod(snapshotID string) corev1.PodTemplateSpec {
	platform, _ := image.Set{BuiltIn: b.settings.Images}.Current(image.FrontID, b.agent.Cell)
	limits := resources(readerCPULimit, readerMemoryMiB, frontEphemeralBytes)
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: b.readerLabels()},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			TerminationGracePeriodSeconds: new(int64(1)),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:   new(true),
				FSGroup:        new(int64(volumeGroup)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				// The name is that of the only container in which functions may run commands.
				Name: agentName, Image: platform.Reference, Command: []string{frontCommand, dataplane.WaitArg},
				Env: []corev1.EnvVar{
					{Name: dataplane.EnvDataDir, Value: dataplane.DefaultDataPath},
					{Name: "GOMEMLIMIT", Value: strconv.Itoa(readerMemoryMiB*3/4) + "MiB"},
				},
				Resources: corev1.ResourceRequirements{
					Requests: resources(frontCPURequest, readerMemoryMiB, frontEphemeralBytes), Limits: limits,
				},
				VolumeMounts: []corev1.VolumeMount{
					{Name: volumeName, MountPath: dataplane.DefaultDataPath, ReadOnly: true},
				},
				SecurityContext: restricted(),
			}},
			Volumes: []corev1.Volume{{Name: volumeName, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
					ClaimName: readerClaimName(snapshotID),
				},
			}}},
		},
	}
}
