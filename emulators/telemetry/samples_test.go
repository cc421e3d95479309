package telemetry

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/monitoringemu"
)

func began() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// pod returns an agent's pod. Its container waits to be restarted if started is zero.
func pod(started time.Time, restarts int32) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "agent-1", Name: "agent-0", UID: "uid",
			CreationTimestamp: metav1.NewTime(began()),
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "agent",
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
					"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi"),
				}},
			}},
			Volumes: []corev1.Volume{
				{Name: "data", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
				}},
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

// values returns the value of each sample by metric. All values are numbers.
func values(t *testing.T, samples []monitoringemu.Sample) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for _, s := range samples {
		name := s.Metric + s.MetricLabels["memory_type"] + s.MetricLabels["volume_name"]
		if _, twice := found[name]; twice {
			t.Errorf("%s has two samples, want one", name)
		}
		switch v := s.Value.(type) {
		case float64:
			found[name] = v
		case int64:
			found[name] = float64(v)
		default:
			t.Errorf("%s has a value of type %T, want a number", name, v)
		}
	}
	return found
}

// TestSamples_FollowTheContainer checks that counters grow until the container restarts, that requests cost CPU, and
// that usage stays within the limits.
func TestSamples_FollowTheContainer(t *testing.T) {
	t.Parallel()
	const (
		cpu    = "kubernetes.io/container/cpu/core_usage_time"
		memory = "kubernetes.io/container/memory/used_bytesnon-evictable"
		volume = "kubernetes.io/pod/volume/utilizationdata"
	)
	server, err := monitoringemu.Start(t.Context(), monitoringemu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	m, o := &meter{}, Options{Project: "p", Location: "l", Cluster: "c"}
	measure := func(p *corev1.Pod, after time.Duration, requests int64) map[string]float64 {
		t.Helper()
		seen := observation{o, p, began().Add(after)}
		samples := seen.kubeletSamples(m, requests, seen.compute)
		if err := server.Feed(o.Project, samples...); err != nil {
			t.Fatal(err)
		}
		return values(t, samples)
	}
	first := measure(pod(began(), 0), time.Minute, 0)
	for name, most := range map[string]float64{cpu: 2 * 60, memory: 4 << 30, volume: 1} {
		if got := first[name]; got <= 0 || got > most {
			t.Errorf("%s after a minute = %v, want more than 0 and at most %v", name, got, most)
		}
	}
	second := measure(pod(began(), 0), 2*time.Minute, 0)
	third := measure(pod(began(), 0), 3*time.Minute, 1000)
	if idle, busy := second[cpu]-first[cpu], third[cpu]-second[cpu]; idle <= 0 || busy < idle+10 {
		t.Errorf("CPU seconds of an idle minute = %v, of a minute with 1,000 requests = %v; want at least 10 more",
			idle, busy)
	}
	if first[memory] == second[memory] {
		t.Errorf("memory in both minutes = %v, want it to change", first[memory])
	}
	if second[volume] <= first[volume] {
		t.Errorf("volume in two minutes = %v, %v; want it to grow", first[volume], second[volume])
	}
	waiting := measure(pod(time.Time{}, 1), 4*time.Minute, 1000)
	if len(waiting) != 0 {
		t.Errorf("samples of a waiting container = %v, want none", waiting)
	}
	again := measure(pod(began().Add(5*time.Minute), 1), 6*time.Minute, 1000)
	if again[cpu] >= third[cpu] {
		t.Errorf("samples of a restarted container = %v, want less CPU than %v", again, third[cpu])
	}
}

func TestSamples_LeaveOutTheMemoryOfSandboxedContainers(t *testing.T) {
	t.Parallel()
	p := pod(began(), 0)
	p.Spec.RuntimeClassName = new("gvisor")
	seen := observation{Options{}, p, began().Add(time.Minute)}
	got := values(t, seen.kubeletSamples(&meter{}, 0, seen.compute))
	if _, found := got["kubernetes.io/container/memory/used_bytesnon-evictable"]; found {
		t.Error("a sandboxed container has a memory series, want none")
	}
	if len(got) == 0 {
		t.Error("a sandboxed container has no series at all")
	}
}
