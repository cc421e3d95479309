//go:build unix

package cellwatch

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/emulators/kubeclient"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
)

// world is a cluster, an administrator's client, and one agent's namespace.
type world struct {
	*kubeclient.Client
	config *rest.Config
	id     string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c := shared.Start(t)
	w := &world{
		Client: clustertest.Client(t, c.Kubeconfig), config: clustertest.Config(t, c.Kubeconfig),
		id: uuid.NewString(),
	}
	w.createNamespace(t, w.meta(w.namespace()))
	return w
}

func (w *world) namespace() string { return agent.Namespace(w.id) }

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"app.kubernetes.io/managed-by": "agent-control-plane", labelAgent: w.id, dataplane.LabelSlug: "support",
	}}
}

func (w *world) createNamespace(t *testing.T, meta metav1.ObjectMeta) {
	t.Helper()
	_, err := w.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: meta}, metav1.CreateOptions{})
	must(t, err)
}

// createService creates the Service of an agent.
func (w *world) createService(t *testing.T, namespace, name string) {
	t.Helper()
	_, err := w.Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: w.meta(name),
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{labelAgent: w.id},
			Ports: []corev1.ServicePort{{Name: "metrics", Port: 9091}, {Name: portName, Port: 8080}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
}

// patchService changes the metadata of the agent's Service.
func (w *world) patchService(t *testing.T, metadata map[string]any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	must(t, err)
	_, err = w.Services(w.namespace()).Patch(t.Context(), service, types.MergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
}

// createPod creates a pod that the simulated node starts.
func (w *world) createPod(t *testing.T, namespace string) {
	t.Helper()
	// A controller makes the ServiceAccount of a namespace that is new.
	clustertest.Eventually(t, func(ctx context.Context) error {
		_, err := w.Pods(namespace).Create(ctx, &corev1.Pod{
			ObjectMeta: w.meta("agent-0"),
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "agent", Image: "agent.example/image:1"}},
			},
		}, metav1.CreateOptions{})
		return err
	})
}

func (w *world) deletePod(t *testing.T, options metav1.DeleteOptions) {
	t.Helper()
	must(t, w.Pods(w.namespace()).Delete(t.Context(), "agent-0", options))
}

// start runs a watch until the test ends, and waits for its first lists.
func start(t *testing.T, run func(context.Context), awaitSync func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	must(t, awaitSync(t.Context()))
}

// wires are the connections of one client, which a test can cut and hold.
type wires struct {
	mu     sync.Mutex
	open   []net.Conn
	dialed int
	broken bool
}

func (c *wires) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken {
		return nil, fmt.Errorf("dial %s: %w", addr, net.ErrClosed)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err == nil {
		c.open = append(c.open, conn)
		c.dialed++
	}
	return conn, err
}

func (c *wires) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = true
	for _, conn := range c.open {
		_ = conn.Close()
	}
}

func (c *wires) restore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = false
}

// connections counts those that were made.
func (c *wires) connections() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dialed
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
