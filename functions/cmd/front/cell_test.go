package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
)

// pod is a process with the limits of its container in the cluster.
type pod struct {
	group     controlGroup
	memoryMiB int64
}

// cell is a router and the front of one agent.
type cell struct {
	pods    map[string]pod
	host    string
	address string // the router's
}

// startCell starts the binaries with the limits and the memory target that the cluster's objects have.
func startCell(t *testing.T, binaries string, index int) *cell {
	t.Helper()
	container := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(w, "done")
	}))
	t.Cleanup(container.Close)
	a := agent.Agent{ID: uuid.NewString(), Slug: "a", Cell: "us-1"}
	c := &cell{pods: map[string]pod{}, host: a.Hostname(agent.Addresses{Domain: "agents.example.com"})}
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 61, 8, byte(1 + index)}), dataplane.FrontPort)
	c.start(t, "front", binaries, []string{
		"LISTEN_HOST=" + at.Addr().String(), "AGENT_HOSTNAME=" + c.host,
		"AGENT_PORT=" + fmt.Sprint(container.Listener.Addr().(*net.TCPAddr).Port), "DASHBOARD_USERNAME=admin",
		"DASHBOARD_PASSWORD=canary-1", "API_SERVER_KEY=canary-2",
	})
	awaitListener(t, at.String())
	c.startRouter(t, binaries, index, a, at)
	return c
}

// startRouter starts a router that knows where an agent is.
func (c *cell) startRouter(
	t *testing.T, binaries string, index int, a agent.Agent, at netip.AddrPort, env ...string,
) *exec.Cmd {
	t.Helper()
	host := netip.AddrFrom4([4]byte{127, 61, 9, byte(1 + index)}).String()
	c.address = net.JoinHostPort(host, "8080")
	cmd := c.start(t, "router", binaries, append(env, "LISTEN_HOST="+host, "PORT=8080", "METRICS_PORT=9090",
		"CELL_DOMAIN=us-1.agents.example.com", "KUBECONFIG="+serveEndpoint(t, a, at)))
	awaitListener(t, c.address)
	return cmd
}

func (c *cell) start(t *testing.T, name, binaries string, env []string) *exec.Cmd {
	t.Helper()
	t.Helper()
	o := containerOf(t, name)
	p := pod{memoryMiB: o.Resources.Limits.Memory().Value() >> 20}
	p.group = newControlGroup(t, name, p.memoryMiB, o.Resources.Limits.Cpu().MilliValue())
	i := slices.IndexFunc(o.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
	env = append(env, "GOMEMLIMIT="+o.Env[i].Value)
	log := filepath.Join(t.TempDir(), name)
	cmd := p.group.start(t, log, env, filepath.Join(binaries, name))
	t.Cleanup(func() {
		if out, err := os.ReadFile(log); t.Failed() || strings.Contains(string(out), "canary") {
			t.Errorf("the log of process %d, %s: %s, %v", cmd.Process.Pid, name, out, err)
		}
	})
	c.pods[name] = p
	return cmd
}

// containerOf returns the container of an object in the cluster that runs a binary.
func containerOf(t *testing.T, binary string) corev1.Container {
	t.Helper()
	for _, file := range []string{"../../../infra/gke/testdata/plain.yaml", "../../../terraform/cell/router.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range bytes.Split(text, []byte("\n---")) {
			var o struct {
				Spec struct{ Template corev1.PodTemplateSpec }
			}
			if err := yaml.Unmarshal(document, &o); err != nil {
				continue // another kind of object
			}
			pod := o.Spec.Template.Spec
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				if c.Name == binary {
					return c
				}
			}
		}
	}
	t.Fatalf("no object runs the %s", binary)
	return corev1.Container{}
}

// serveEndpoint serves what a router reads of a cluster's API, and returns a kubeconfig.
func serveEndpoint(t *testing.T, a agent.Agent, at netip.AddrPort) (kubeconfig string) {
	t.Helper()
	name, port, protocol, ready := "http", int32(at.Port()), corev1.ProtocolTCP, true
	slice := discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.Namespace(), Name: "agent-x", ResourceVersion: "1",
			Labels: map[string]string{dataplane.LabelSlug: a.Slug},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{at.Addr().String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch query := req.URL.Query(); {
		case query.Has("sendInitialEvents"):
			http.Error(w, "not supported", http.StatusBadRequest)
		case query.Has("watch"):
			<-req.Context().Done()
		default:
			_ = json.NewEncoder(w).Encode(discoveryv1.EndpointSliceList{
				TypeMeta: metav1.TypeMeta{
					Kind: "EndpointSliceList", APIVersion: discoveryv1.SchemeGroupVersion.String(),
				},
				ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []discoveryv1.EndpointSlice{slice},
			})
		}
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, "+
		"contexts: [{name: c, context: {cluster: c}}], "+
		"clusters: [{name: c, cluster: {server: %q}}]}", server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// usage is what a client of an agent got.
type usage struct {
	took    []time.Duration
	failed  int
	answers map[string]int
}

// String returns the figures to compare.
func (u usage) String() string {
	return fmt.Sprintf("%d requests, %d failed, p50 %s, p99 %s", len(u.took), u.failed, u.percentile(.5),
		u.percentile(.99))
}

func (u usage) percentile(share float64) time.Duration {
	slices.Sort(u.took)
	return u.took[int(share*float64(len(u.took)-1))].Round(10 * time.Microsecond)
}

// use sends requests with the API's key, one after the other, for a time.
func (c *cell) use(t *testing.T, lasts time.Duration) usage {
	t.Helper()
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, Timeout: 20 * time.Second}
	u := usage{answers: map[string]int{}}
	for end := time.Now().Add(lasts); time.Now().Before(end); <-time.After(time.Millisecond) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+c.address+"/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = c.host
		req.Header.Set("Authorization", "Bearer canary-2")
		req.Header.Set("X-Forwarded-For", "203.0.113.9, 192.0.2.1")
		req.Header.Set("X-Forwarded-Proto", "https")
		began := time.Now()
		answer := "none"
		if res, err := client.Do(req); err == nil {
			body, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if answer = res.Status[:3]; string(body) != "done" {
				u.failed++
			}
		} else {
			u.failed++
		}
		u.answers[answer]++
		u.took = append(u.took, time.Since(began))
	}
	return u
}
