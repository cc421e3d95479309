package telemetry

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/gateway"
	"agents.example/controlplane/emulators/monitoringemu"
)

func began() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// pod is one of an agent whose container was started at a time, or waits to be started again.
func pod(started time.Time, restarts int32) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "agent-1", Name: "agent-0", UID: "uid",
			CreationTimestamp: metav1.NewTime(began())},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "agent",
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
					"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi"),
				}}}},
			Volumes: []corev1.Volume{
				{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
				{Name: "tmp"},
			},
		},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "agent", RestartCount: restarts}}},
	}
	if !started.IsZero() {
		p.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(started)}
	}
	return p
}

// values are the samples of one metric by their values, which are all numbers.
func values(t *testing.T, samples []monitoringemu.Sample) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for _, s := range samples {
		name := s.Metric + s.MetricLabels["memory_type"] + s.MetricLabels["volume_name"]
		if _, twice := found[name]; twice {
			t.Errorf("%s is measured twice", name)
		}
		switch v := s.Value.(type) {
		case float64:
			found[name] = v
		case int64:
			found[name] = float64(v)
		default:
			t.Errorf("%s is %T", name, v)
		}
	}
	return found
}

// TestMeasured: counters grow until the container is started anew, requests cost CPU, and nothing exceeds its limit.
func TestMeasured(t *testing.T) {
	t.Parallel()
	const (
		cpu      = "kubernetes.io/container/cpu/core_usage_time"
		memory   = "kubernetes.io/container/memory/used_bytesnon-evictable"
		restarts = "kubernetes.io/container/restart_count"
		uptime   = "kubernetes.io/container/uptime"
		volume   = "kubernetes.io/pod/volume/utilizationdata"
	)
	server, err := monitoringemu.Start(t.Context(), monitoringemu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	m, o := &meter{}, Options{Project: "p", Location: "l", Cluster: "c"}
	measure := func(p *corev1.Pod, after time.Duration, requests int64) map[string]float64 {
		t.Helper()
		at := observation{o, p, began().Add(after)}
		traffic := []gateway.Traffic{{
			Namespace: "agent-1", Pod: "agent-0", Host: "h", Since: began(), Codes: map[int]int64{200: requests},
			Durations: append(make([]int64, len(gateway.DurationBounds())), requests),
		}}
		samples := at.kubeletSamples(m, traffic)
		if err := server.Feed(o.Project, append(at.prometheusSamples(traffic), samples...)...); err != nil {
			t.Fatal(err)
		}
		return values(t, samples)
	}
	first := measure(pod(began(), 0), time.Minute, 0)
	if first[uptime] != 60 || first[cpu] <= 0 || first[cpu] > 2*60 || first[memory] <= 0 || first[memory] > 4<<30 ||
		first[volume] <= 0 || first[volume] > 1 {
		t.Errorf("%v", first)
	}
	second := measure(pod(began(), 0), 2*time.Minute, 0)
	third := measure(pod(began(), 0), 3*time.Minute, 1000)
	if idle, busy := second[cpu]-first[cpu], third[cpu]-second[cpu]; idle <= 0 || busy < idle+10 {
		t.Errorf("a minute costs %v s of CPU, one with a thousand requests %v", idle, busy)
	}
	if first[memory] == second[memory] || second[volume] <= first[volume] {
		t.Errorf("the curves are dead: %v, %v", first, second)
	}
	waiting := measure(pod(time.Time{}, 1), 4*time.Minute, 1000)
	if len(waiting) != 1 || waiting[restarts] != 1 {
		t.Errorf("a container that waits: %v", waiting)
	}
	again := measure(pod(began().Add(5*time.Minute), 1), 6*time.Minute, 1000)
	if again[uptime] != 60 || again[cpu] >= third[cpu] || again[restarts] != 1 {
		t.Errorf("a container that was started anew: %v", again)
	}
}
