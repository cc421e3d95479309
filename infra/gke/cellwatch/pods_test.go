//go:build unix

package cellwatch

import (
	"context"
	"errors"
	"fmt"
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

// startPods starts a watch that reports to r and waits for its first lists.
func startPods(t *testing.T, config *rest.Config, r *records) *Pods {
	t.Helper()
	p, err := NewPods(config, r)
	must(t, err)
	start(t, p.Run, p.handlers.awaitSync)
	return p
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

func TestPods_ReportsTheLifeOfAnAgent(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), &records{}
	startPods(t, w.config, r)
	w.createPod(t, w.namespace())
	r.eventually(t, w.id, "changed to ready")
	if got := r.of(w.id)[0]; got != "added not ready" {
		t.Errorf("first record = %q, want the pod that starts", got)
	}
	w.deletePod(t, metav1.DeleteOptions{})
	r.eventually(t, w.id, "gone")
	before := len(r.of(w.id))
	must(t, w.Namespaces().Delete(t.Context(), w.namespace(), metav1.DeleteOptions{}))
	clustertest.Eventually(t, func(context.Context) error {
		if len(r.of(w.id)) != before+1 {
			return errors.New("the end of the namespace was not reported")
		}
		return nil
	})
}

func TestPods_ReportsTheEndOfAnAgentsVolumesOnly(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), &records{}
	startPods(t, w.config, r)
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
		must(t, err)
		err = w.PersistentVolumes().Delete(t.Context(), name, metav1.DeleteOptions{})
		must(t, err)
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

func TestPods_IgnoresForeignPodsWithOurLabels(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), &records{}
	startPods(t, w.config, r)
	name := "tenant-" + w.id
	w.createNamespace(t, metav1.ObjectMeta{Name: name})
	w.createPod(t, name)
	w.createPod(t, w.namespace()) // its records come after those of the foreign pod
	r.eventually(t, w.id, "changed to ready")
	if got := r.of(w.id); len(got) != len(slices.Compact(slices.Clone(got))) || got[0] != "added not ready" {
		t.Errorf("records = %q, want those of the agent's pod only", got)
	}
}

func TestPods_RestartsWithoutRepeatingWhatItReported(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), &records{}
	var c wires
	config := rest.CopyConfig(w.config)
	config.Dial = c.dial
	startPods(t, config, r)
	w.createPod(t, w.namespace())
	r.eventually(t, w.id, "changed to ready")
	before := len(r.of(w.id))
	dialed := c.connections()
	c.cut()
	c.restore()
	clustertest.Eventually(t, func(context.Context) error {
		if c.connections() == dialed {
			return errors.New("the watch has not connected again")
		}
		return nil
	})
	// The pod's end, which the watch may have missed, is the next thing that is reported.
	w.deletePod(t, metav1.DeleteOptions{})
	r.eventually(t, w.id, "gone")
	for _, got := range r.of(w.id)[before:] {
		if got != "changed to not ready" && got != "gone" {
			t.Errorf("record after the connections were cut = %q, want the end of the pod only", got)
		}
	}
}

func TestPods_FindsPodsThatExist(t *testing.T) {
	t.Parallel()
	w, r, later := newWorld(t), &records{}, &records{}
	startPods(t, w.config, r)
	w.createPod(t, w.namespace())
	r.eventually(t, w.id, "changed to ready")
	startPods(t, w.config, later)
	later.eventually(t, w.id, "found ready")
}

// TestPods_StoresStrippedObjects: memory must not depend on what a pod contains.
func TestPods_StoresStrippedObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	watch := startPods(t, w.config, &records{})
	w.createPod(t, w.namespace())
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
