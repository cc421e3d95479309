package gke

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// sandboxClass is the RuntimeClass of sandboxed agents, as GKE calls it.
	sandboxClass = "gvisor"
	// stopSeconds is how long an agent may take to stop, by the runtime contract.
	stopSeconds = 30
	// volumeGroup owns the volume's files, so that the image's user can write them, whoever that is.
	volumeGroup = 65532
	// scratchBytes is the size of /tmp.
	scratchBytes = 256 << 20
	scratchName  = "tmp"
	readyPath    = "/health/ready"
)

// pod is the template of the agent's pod: restricted by Pod Security's measure, without a service account's token, and
// with nothing to write to but its volume and a small /tmp.
func (b blueprint) pod() corev1.PodTemplateSpec {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      b.labels(),
			Annotations: map[string]string{annotationConfig: configHash(b.agent)},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName:           agentName,
			AutomountServiceAccountToken: new(false),
			// Names of Services as variables would tell the agent of what it can't reach.
			EnableServiceLinks:            new(false),
			TerminationGracePeriodSeconds: new(int64(stopSeconds)),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), // the user itself is the image's
				FSGroup:      new(int64(volumeGroup)),
				// Going through a large volume at every start would take minutes.
				FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
				SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{b.container()},
			Volumes: []corev1.Volume{
				{Name: volumeName, VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: volumeName},
				}},
				{Name: scratchName, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(size(scratchBytes))}}},
			},
		},
	}
	if b.agent.Sandbox {
		template.Spec.RuntimeClassName = new(sandboxClass)
	}
	return template
}

func (b blueprint) container() corev1.Container {
	environment := corev1.LocalObjectReference{Name: environmentName(b.agent)}
	ready := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
		Path: readyPath, Port: intstr.FromString(portName),
		Scheme: corev1.URISchemeHTTP,
	}}
	listens := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString(portName)}}
	return corev1.Container{
		Name: agentName, Image: b.cell.Image,
		Ports: []corev1.ContainerPort{
			{Name: portName, ContainerPort: portHTTP, Protocol: corev1.ProtocolTCP},
			{Name: "metrics", ContainerPort: portMetrics, Protocol: corev1.ProtocolTCP},
		},
		// The Secret comes last: where both had a key, the credentials would win.
		EnvFrom: []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: environment}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: environment}},
		},
		Resources: corev1.ResourceRequirements{Requests: b.least(), Limits: b.most()},
		VolumeMounts: []corev1.VolumeMount{
			{Name: volumeName, MountPath: "/data"},
			{Name: scratchName, MountPath: "/tmp"},
		},
		// A start may take five minutes; the other probes begin with its end.
		StartupProbe:   &corev1.Probe{ProbeHandler: ready, PeriodSeconds: 2, TimeoutSeconds: 2, FailureThreshold: 150},
		ReadinessProbe: &corev1.Probe{ProbeHandler: ready, PeriodSeconds: 5, TimeoutSeconds: 2, FailureThreshold: 3},
		// Only an agent that has stopped listening is restarted; one that is busy, or waits for another service, is
		// left alone.
		LivenessProbe: &corev1.Probe{ProbeHandler: listens, PeriodSeconds: 20, TimeoutSeconds: 5, FailureThreshold: 6},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}
