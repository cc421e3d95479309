//go:build unix

package podwatch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/emulators/kubeclient"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane/notifier"
)

// records is a Notifier that writes down what it is told about each agent.
type records struct {
	mu  sync.Mutex
	all map[string][]string
}

func (r *records) add(agentID, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string][]string{}
	}
	r.all[agentID] = append(r.all[agentID], what)
}

func (r *records) PodFound(id string, p notifier.Pod) { r.add(id, "found "+describe(p)) }
func (r *records) PodAdded(id string, p notifier.Pod) { r.add(id, "added "+describe(p)) }
func (r *records) Gone(id string)                     { r.add(id, "gone") }

func (r *records) PodChanged(id string, before, after notifier.Pod) {
	if before != after {
		r.add(id, "changed to "+describe(after))
	}
}

func (r *records) of(id string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all[id])
}

func describe(p notifier.Pod) string {
	if p.Ready {
		return "ready"
	}
	return strings.TrimSpace("not ready " + p.Trouble)
}

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
	_, err := w.Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: w.meta(w.namespace())}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) namespace() string { return agent.Namespace(w.id) }

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"app.kubernetes.io/managed-by": "agent-control-plane", labelAgent: w.id,
	}}
}

// createPod creates a pod that the simulated node starts.
func (w *world) createPod(t *testing.T) {
	t.Helper()
	_, err := w.Pods(w.namespace()).Create(t.Context(), &corev1.Pod{
		ObjectMeta: w.meta("agent-0"),
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "agent.example/image:1"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// watch starts a watch that reports to r, until the test ends. transport may be nil.
func (w *world) watch(t *testing.T, r *records,
	dial func(ctx context.Context, network, addr string) (net.Conn, error),
) {
	t.Helper()
	config := rest.CopyConfig(w.config)
	config.Dial = dial
	watch, err := New(config, r)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { watch.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	clustertest.Eventually(t, func(context.Context) error {
		if !watch.Synced() {
			return errors.New("the first lists are not complete")
		}
		return nil
	})
}

// eventually waits until an agent's records end as expected.
func (r *records) eventually(t *testing.T, id string, last ...string) {
	t.Helper()
	clustertest.Eventually(t, func(context.Context) error {
		got := r.of(id)
		if n := len(got) - len(last); n < 0 || !slices.Equal(got[n:], last) {
			return fmt.Errorf("records = %q, want the last to be %q", got, last)
		}
		return nil
	})
}

func TestWatch_ReportsTheLifeOfAnAgent(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), &records{}
	w.watch(t, r, nil)
	w.createPod(t)
	r.eventually(t, w.id, "changed to ready")
	if got := r.of(w.id)[0]; got != "added not ready" {
		t.Errorf("first record = %q, want the pod that starts", got)
	}
	err := w.Pods(w.namespace()).Delete(t.Context(), "agent-0", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.eventually(t, w.id, "gone")
	before := len(r.of(w.id))
	if err := w.Namespaces().Delete(t.Context(), w.namespace(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, func(context.Context) error {
		if len(r.of(w.id)) != before+1 {
			return errors.New("the end of the namespace was not reported")
		}
		return nil
	})
}

func TestWatch_ReportsTheEndOfAnAgentsVolumesOnly(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), &records{}
	w.watch(t, r, nil)
	foreign := strings.ReplaceAll(uuid.NewString(), "-", "") // an id has dashes
	for name, namespace := range map[string]string{
		"pv-" + w.id: w.namespace(), "pv-foreign-" + w.id: "kube-system", "pv-odd-" + w.id: agent.Namespace(foreign),
	} {
		_, err := w.PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{
				Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: "data", UID: types.UID(w.id)},
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		err = w.PersistentVolumes().Delete(t.Context(), name, metav1.DeleteOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	r.eventually(t, w.id, "gone")
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.all {
		if strings.Contains(id, foreign) || id == "kube-system" {
			t.Errorf("a foreign volume was reported for %q", id)
		}
	}
}

func TestWatch_IgnoresForeignPodsWithOurLabels(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), &records{}
	w.watch(t, r, nil)
	name := "tenant-" + w.id
	_, err := w.Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	copied := w.meta("agent-0")
	_, err = w.Pods(name).Create(t.Context(), &corev1.Pod{
		ObjectMeta: copied,
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "agent.example/image:1"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.createPod(t) // its records come after those of the foreign pod
	r.eventually(t, w.id, "changed to ready")
	if got := r.of(w.id); len(got) != len(slices.Compact(slices.Clone(got))) || got[0] != "added not ready" {
		t.Errorf("records = %q, want those of the agent's pod only", got)
	}
}

// connections are the connections of one client, which a test can cut.
type connections struct {
	mu   sync.Mutex
	open []net.Conn
	// dialed counts all connections.
	dialed int
}

func (c *connections) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, conn)
	c.dialed++
	return conn, nil
}

func (c *connections) cut() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		_ = conn.Close()
	}
	c.open = nil
	return c.dialed
}

func TestWatch_RestartsWithoutRepeatingWhatItReported(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), &records{}
	var wires connections
	w.watch(t, r, wires.dial)
	w.createPod(t)
	r.eventually(t, w.id, "changed to ready")
	before := len(r.of(w.id))
	dialed := wires.cut()
	clustertest.Eventually(t, func(context.Context) error {
		wires.mu.Lock()
		defer wires.mu.Unlock()
		if wires.dialed == dialed {
			return errors.New("the watch has not connected again")
		}
		return nil
	})
	// The pod's end, which the watch may have missed, is the next thing that is reported.
	err := w.Pods(w.namespace()).Delete(t.Context(), "agent-0", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.eventually(t, w.id, "gone")
	for _, got := range r.of(w.id)[before:] {
		if got != "changed to not ready" && got != "gone" {
			t.Errorf("record after the connections were cut = %q, want the end of the pod only", got)
		}
	}
}

func TestWatch_FindsPodsThatExist(t *testing.T) {
	t.Parallel()
	w, r, later := newWorld(t), &records{}, &records{}
	w.watch(t, r, nil)
	w.createPod(t)
	r.eventually(t, w.id, "changed to ready")
	w.watch(t, later, nil)
	later.eventually(t, w.id, "found ready")
}

// TestWatch_StoresStrippedObjects: memory must not depend on what a pod contains.
func TestWatch_StoresStrippedObjects(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), &records{}
	watch, err := New(w.config, r)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { watch.Run(ctx) })
	defer func() { stop(); running.Wait() }()
	w.createPod(t)
	clustertest.Eventually(t, func(context.Context) error {
		stored, found, err := watch.pods.GetStore().GetByKey(w.namespace() + "/agent-0")
		if err != nil || !found {
			return fmt.Errorf("the pod is not stored: %w", err)
		}
		pod := stored.(*corev1.Pod)
		if !observe(pod).Ready {
			return errors.New("the pod is not ready")
		}
		if len(pod.Spec.Containers) > 0 || len(pod.Labels) > 0 || len(pod.ManagedFields) > 0 ||
			len(pod.Status.PodIPs) > 0 {
			t.Errorf("the stored pod has fields that are not needed: %+v", pod)
		}
		return nil
	})
}
