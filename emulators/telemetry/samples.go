package telemetry

import (
	"hash/fnv"
	"math"
	"time"

	"google.golang.org/genproto/googleapis/api/metric"
	corev1 "k8s.io/api/core/v1"

	"agents.example/controlplane/emulators/monitoringemu"
)

// observation is a pod at one time.
type observation struct {
	options Options
	pod     *corev1.Pod
	now     time.Time
}

// meter remembers the usage of a pod's container.
type meter struct {
	since    time.Time // start of the container
	seconds  float64   // of CPU
	measured time.Time
	requests int64
}

// The computed usage of a container, as shares of its limits.
const (
	idleCPU, swingCPU       = 0.08, 0.04
	idleMemory, swingMemory = 0.30, 0.05
	emptyVolume             = 0.04
	volumeOfHour            = 0.002
	volumeOfRequest         = 0.00001
	cpuOfRequest            = 0.02 // seconds
	wave                    = 10 * time.Minute
)

// compute returns the usage of a container that uses nothing.
func (p observation) compute(m *meter, requests int64) (usage, bool) {
	limits := p.pod.Spec.Containers[0].Resources.Limits
	cores, bytes := limits.Cpu().AsApproximateFloat64(), limits.Memory().AsApproximateFloat64()
	m.seconds += cores*p.swing(idleCPU, swingCPU)*p.now.Sub(m.measured).Seconds() +
		cpuOfRequest*float64(max(0, requests-m.requests))
	m.measured, m.requests = p.now, requests
	return usage{
		seconds: m.seconds, working: int64(bytes * p.swing(idleMemory, swingMemory)), cache: int64(bytes * idleCPU),
	}, true
}

// kubeletSamples returns what a kubelet reports. requests is how many requests the agent has served. used returns the
// usage of the pod's container, if it is known.
func (p observation) kubeletSamples(m *meter, requests int64,
	used func(*meter, int64) (usage, bool),
) []monitoringemu.Sample {
	since, runs := runningSince(p.pod)
	var samples []monitoringemu.Sample
	if !runs || !since.Before(p.now) {
		return samples
	}
	if !m.since.Equal(since) {
		*m = meter{since: since, measured: since, requests: requests}
	}
	u, known := used(m, requests)
	if known && !p.sandboxed() { // GKE does not measure the memory of sandboxed containers
		memory := p.gauge("kubernetes.io/container/memory/used_bytes", u.working)
		memory.MetricLabels = map[string]string{"memory_type": "non-evictable"}
		cache := p.gauge("kubernetes.io/container/memory/used_bytes", u.cache)
		cache.MetricLabels = map[string]string{"memory_type": "evictable"}
		samples = append(samples, memory, cache)
	}
	if known {
		samples = append(samples, p.cumulative("kubernetes.io/container/cpu/core_usage_time", since, u.seconds))
	}
	for _, v := range p.pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		share := emptyVolume + volumeOfHour*p.now.Sub(p.pod.CreationTimestamp.Time).Hours() +
			volumeOfRequest*float64(requests)
		volume := p.gauge("kubernetes.io/pod/volume/utilization", min(share, 1))
		volume.Resource, volume.MetricLabels = "k8s_pod", map[string]string{"volume_name": v.Name}
		delete(volume.ResourceLabels, "container_name")
		samples = append(samples, volume)
	}
	return samples
}

// swing returns a share that oscillates around a mean, with a phase for each pod.
func (p observation) swing(mean, by float64) float64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(p.pod.UID)) // never fails
	turns := float64(p.now.UnixMilli())/float64(wave.Milliseconds()) + float64(h.Sum32()%1000)/1000
	return mean + by*math.Sin(2*math.Pi*turns)
}

// sandboxed reports whether the pod runs in gVisor.
func (p observation) sandboxed() bool { return p.pod.Spec.RuntimeClassName != nil }

// gauge returns a point of a GAUGE metric of the pod's container.
func (p observation) gauge(metricType string, value any) monitoringemu.Sample {
	return monitoringemu.Sample{
		Metric: metricType, Resource: "k8s_container", End: p.now, Value: value,
		ResourceLabels: map[string]string{
			"project_id": p.options.Project, "location": p.options.Location, "cluster_name": p.options.Cluster,
			"namespace_name": p.pod.Namespace, "pod_name": p.pod.Name, "container_name": p.pod.Spec.Containers[0].Name,
		},
	}
}

// cumulative returns a point of a CUMULATIVE metric that began at a time.
func (p observation) cumulative(metricType string, began time.Time, value any) monitoringemu.Sample {
	s := p.gauge(metricType, value)
	s.Kind, s.Start = metric.MetricDescriptor_CUMULATIVE, began
	return s
}
