package gke

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// sandboxClass is the RuntimeClass of sandboxed agents, as GKE calls it.
	sandboxClass = "gvisor"
	// volumeGroup owns the volume's files, so that the image's user can write them, whoever that is.
	volumeGroup = 65532
	// scratchBytes is the size of /tmp.
	scratchBytes = 256 << 20
	scratchName  = "tmp"
)

// pod is the template of the agent's pod: restricted by Pod Security's measure, without a service account's token. The
// agent's container can write to its volume and a small /tmp only.
func (b blueprint) pod() corev1.PodTemplateSpec {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      b.labels(),
			Annotations: map[string]string{annotationConfig: b.config},
		},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(false),
			// Names of Services as variables would tell the agent of what it can't reach.
			EnableServiceLinks:            new(false),
			TerminationGracePeriodSeconds: new(int64(b.image.GraceSeconds)),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), // the user itself is the image's
				FSGroup:      new(int64(volumeGroup)),
				// Going through a large volume at every start would take minutes.
				FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
				SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			InitContainers: slices.Concat(b.imports(), b.seeds(), []corev1.Container{b.front()}),
			Containers:     []corev1.Container{b.container()},
			Volumes: append([]corev1.Volume{
				{Name: volumeName, VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
						ClaimName: claimName(b.agent.Volume.Number),
					},
				}},
				{Name: scratchName, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(size(scratchBytes))}}},
			}, b.fileVolumes()...),
		},
	}
	if b.agent.Sandbox {
		template.Spec.RuntimeClassName = new(sandboxClass)
		template.Labels[labelSandbox] = "true"
	}
	b.restrict(&template.Spec)
	if b.plan.CPURequestMillicores >= minProtectedCPU {
		template.Annotations[annotationSafeToEvict] = "false"
	}
	return template
}
