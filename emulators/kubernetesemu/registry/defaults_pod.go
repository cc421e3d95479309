package registry

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

func defaultPod(o *corev1.Pod, isNew bool) {
	defaultPodSpec(&o.Spec)
	setPointer(&o.Spec.EnableServiceLinks, true)
	if isNew {
		o.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qualityOfService(&o.Spec)}
	}
}

func defaultPodSpec(p *corev1.PodSpec) {
	set(&p.RestartPolicy, corev1.RestartPolicyAlways)
	set(&p.DNSPolicy, corev1.DNSClusterFirst)
	set(&p.SchedulerName, corev1.DefaultSchedulerName)
	setPointer(&p.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	setPointer(&p.SecurityContext, corev1.PodSecurityContext{})
	p.DeprecatedServiceAccount = p.ServiceAccountName
	for _, containers := range [][]corev1.Container{p.InitContainers, p.Containers} {
		for i := range containers {
			defaultContainer(&containers[i])
		}
	}
	for i := range p.Volumes {
		defaultVolume(&p.Volumes[i])
	}
}

func defaultContainer(c *corev1.Container) {
	set(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	set(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	set(&c.ImagePullPolicy, pullPolicy(c.Image))
	for i := range c.Ports {
		set(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for name, limit := range c.Resources.Limits {
		if _, ok := c.Resources.Requests[name]; ok {
			continue
		}
		if c.Resources.Requests == nil {
			c.Resources.Requests = corev1.ResourceList{}
		}
		c.Resources.Requests[name] = limit
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		defaultProbe(probe)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			set(&from.FieldRef.APIVersion, corev1.SchemeGroupVersion.String())
		}
	}
}

// pullPolicy returns whether an image is pulled again when it exists: only the newest one is.
func pullPolicy(image string) corev1.PullPolicy {
	name := image[strings.LastIndex(image, "/")+1:]
	if !strings.ContainsAny(name, ":@") || strings.HasSuffix(name, ":latest") {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func defaultProbe(probe *corev1.Probe) {
	if probe == nil {
		return
	}
	set(&probe.TimeoutSeconds, 1)
	set(&probe.PeriodSeconds, 10)
	set(&probe.SuccessThreshold, 1)
	set(&probe.FailureThreshold, 3)
	if h := probe.HTTPGet; h != nil {
		set(&h.Path, "/")
		set(&h.Scheme, corev1.URISchemeHTTP)
	}
	if probe.GRPC != nil {
		setPointer(&probe.GRPC.Service, "")
	}
}

func defaultVolume(v *corev1.Volume) {
	switch {
	case v.Secret != nil:
		setPointer(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	case v.ConfigMap != nil:
		setPointer(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	case v.DownwardAPI != nil:
		setPointer(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
	case v.Projected != nil:
		setPointer(&v.Projected.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
		for i := range v.Projected.Sources {
			if t := v.Projected.Sources[i].ServiceAccountToken; t != nil {
				setPointer(&t.ExpirationSeconds, 3600)
			}
		}
	}
}

// qualityOfService returns the class by which a node ends pods when it lacks memory.
func qualityOfService(p *corev1.PodSpec) corev1.PodQOSClass {
	guaranteed, any := true, false
	for _, containers := range [][]corev1.Container{p.InitContainers, p.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			any = any || len(r.Requests) > 0 || len(r.Limits) > 0
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				request, limit := r.Requests[name], r.Limits[name]
				guaranteed = guaranteed && !limit.IsZero() && request.Cmp(limit) == 0
			}
		}
	}
	switch {
	case !any:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}
