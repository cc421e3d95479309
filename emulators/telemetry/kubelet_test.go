package telemetry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"agents.example/controlplane/emulators/monitoringemu"
)

// A kubelet's answer, shortened. The second container has just started.
const kubeletAnswer = `{"node": {"nodeName": "real-0"}, "pods": [{
	"podRef": {"name": "agent-0", "namespace": "agent-a", "uid": "uid"},
	"containers": [
		{"name": "agent", "cpu": {"time": "2026-01-01T00:00:00Z", "usageCoreNanoSeconds": 1500000000},
			"memory": {"usageBytes": 3000000, "workingSetBytes": 2000000}},
		{"name": "other", "cpu": {}, "memory": {}}
	]}]}`

func TestMeasured_IsWhatTheKubeletSays(t *testing.T) {
	t.Parallel()
	all, err := readSummary([]byte(kubeletAnswer))
	if err != nil {
		t.Fatal(err)
	}
	p := pod(began(), 0)
	p.UID = "uid"
	for name, want := range map[string]map[string]float64{
		"agent": {
			"kubernetes.io/container/memory/used_bytesnon-evictable": 2e6,
			"kubernetes.io/container/memory/used_bytesevictable":     1e6,
			"kubernetes.io/container/cpu/core_usage_time":            1.5,
		},
		"other": {}, // it has no points, as long as it is not measured
	} {
		p.Spec.Containers[0].Name, p.Status.ContainerStatuses[0].Name = name, name
		seen := observation{Options{}, p, began().Add(time.Minute)}
		got := values(t, seen.kubeletSamples(&meter{}, 0, all.of(p)))
		for metric := range got {
			if v, used := want[metric]; used && v == got[metric] {
				delete(want, metric)
			} else if strings.Contains(metric, "memory") || strings.Contains(metric, "cpu") {
				t.Errorf("%s of %s = %v, want %v", metric, name, got[metric], v)
			}
		}
		if len(want) > 0 {
			t.Errorf("%s has no points of %v", name, want)
		}
	}
	if _, err := readSummary([]byte("not found")); err == nil {
		t.Error("an answer that is not JSON has no error")
	}
}

// apiServer answers for a kubelet and for the front of a pod, as an API server that reaches them does.
func apiServer(t *testing.T) (kubeconfig string, asked func() []string) {
	t.Helper()
	var mu sync.Mutex
	var paths []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		paths = append(paths, req.URL.Path)
		mu.Unlock()
		switch req.URL.Path {
		case "/api/v1/nodes/real-0/proxy/stats/summary":
			fmt.Fprint(w, kubeletAnswer)
		case "/api/v1/namespaces/agent-a/pods/agent-0:9091/proxy/metrics":
			fmt.Fprint(w, "# TYPE agent_memory_used_bytes gauge\nagent_memory_used_bytes 4096\n")
		default:
			http.NotFound(w, req)
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": "` + server.URL + `"}}],
		"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(paths)
	}
}

// Only the API server reaches the network of a real node.
func TestTelemetry_AsksTheAPIServerForARealNode(t *testing.T) {
	t.Parallel()
	kubeconfig, asked := apiServer(t)
	tel, err := Start(t.Context(), Options{
		Kubeconfig: kubeconfig, RealNode: "real-0", Every: time.Hour,
		Feed: func(string, ...monitoringemu.Sample) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Close() //nolint:errcheck // the test is over
	all, err := tel.measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := pod(began(), 0)
	p.Name, p.Namespace, p.UID, p.Spec.NodeName, p.Status.PodIP = "agent-0", "agent-a", "uid", "real-0", "10.77.0.9"
	p.Spec.RuntimeClassName = new("gvisor")
	if u, known := all.of(p)(nil, 0); !known || u.seconds != 1.5 {
		t.Errorf("measured %+v (known: %t), want 1.5 seconds of CPU", u, known)
	}
	samples := tel.scrapeFront(t.Context(), observation{tel.options, p, began()})
	if len(samples) != 1 || samples[0].Value != 4096.0 {
		t.Errorf("samples of the front = %+v, want one of 4096 bytes; asked for %v", samples, asked())
	}
	elsewhere := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "node-0"}}
	if tel.onRealNode(elsewhere) {
		t.Error("a pod of a simulated node is taken for one of the real node")
	}
}

func TestTelemetry_AsksNoKubeletWithoutARealNode(t *testing.T) {
	t.Parallel()
	kubeconfig, asked := apiServer(t)
	tel, err := Start(t.Context(), Options{Kubeconfig: kubeconfig, Every: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Close() //nolint:errcheck // the test is over
	if all, err := tel.measure(t.Context()); all != nil || err != nil || len(asked()) > 0 {
		t.Errorf("measured %v, %v with requests %v, want none", all, err, asked())
	}
}
