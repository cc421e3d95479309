// Package podwatch watches the pods, namespaces and volumes of one cell's agents, and reports their changes to a
// notifier. It decides nothing, and it reads nothing but what the notifier needs: it strips every object before it
// stores it.
package podwatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"agents.example/controlplane/infra/gke/informers"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane/notifier"
)

const (
	labelAgent = "agents.example/agent-id"
	// managed selects the objects of agents. Package gke labels them.
	managed = "app.kubernetes.io/managed-by=agent-control-plane," + labelAgent
)

// Notifier receives the changes.
type Notifier interface {
	// PodFound reports a pod of the first list, and PodAdded a later one.
	PodFound(agentID string, p notifier.Pod)
	PodAdded(agentID string, p notifier.Pod)
	PodChanged(agentID string, before, after notifier.Pod)
	// Gone reports that a pod, a namespace or a volume does not exist anymore.
	Gone(agentID string)
}

// Watch watches one cell.
type Watch struct {
	pods, namespaces, volumes cache.SharedIndexInformer
	close                     func()
}

// New creates a watch that reports to n. It makes no call.
func New(config *rest.Config, n Notifier) (*Watch, error) {
	client, err := informers.Client(config, "agent-notifier",
		informers.Group{Version: corev1.SchemeGroupVersion, Register: corev1.AddToScheme})
	if err != nil {
		return nil, err
	}
	w := &Watch{close: func() { utilnet.CloseIdleConnectionsFor(client.Client.Transport) }}
	w.pods, err = informers.New(client, "pods", &corev1.Pod{}, managed, strip)
	if err != nil {
		return nil, err
	}
	w.namespaces, err = informers.New(client, "namespaces", &corev1.Namespace{}, managed, strip)
	if err != nil {
		return nil, err
	}
	// The cluster makes volumes, without labels of ours.
	w.volumes, err = informers.New(client, "persistentvolumes", &corev1.PersistentVolume{}, "", strip)
	if err != nil {
		return nil, err
	}
	h := handler{n}
	if _, err := w.pods.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: h.podAdded, UpdateFunc: h.podChanged, DeleteFunc: h.gone,
	}); err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	for _, i := range []cache.SharedIndexInformer{w.namespaces, w.volumes} {
		if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: h.gone}); err != nil {
			return nil, fmt.Errorf("watch namespaces and volumes: %w", err)
		}
	}
	return w, nil
}

// Run watches until ctx ends. A connection that ends begins again, without repeating what was reported.
func (w *Watch) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, i := range []cache.SharedIndexInformer{w.pods, w.namespaces, w.volumes} {
		running.Go(func() { i.RunWithContext(ctx) })
	}
	running.Wait()
	w.close()
}

// Synced reports whether the first lists are complete.
func (w *Watch) Synced() bool {
	return w.pods.HasSynced() && w.namespaces.HasSynced() && w.volumes.HasSynced()
}

// handler hands the informers' events to the notifier.
type handler struct{ Notifier }

func (h handler) podAdded(o any, isInInitialList bool) {
	id, ok := agentOf(o)
	if !ok {
		return
	}
	pod, _ := o.(*corev1.Pod)
	if isInInitialList {
		h.PodFound(id, observe(pod))
		return
	}
	h.PodAdded(id, observe(pod))
}

func (h handler) podChanged(before, after any) {
	id, ok := agentOf(after)
	if !ok {
		return
	}
	was, _ := before.(*corev1.Pod)
	is, _ := after.(*corev1.Pod)
	h.PodChanged(id, observe(was), observe(is))
}

func (h handler) gone(o any) {
	if missed, ok := o.(cache.DeletedFinalStateUnknown); ok { // the deletion itself was not seen
		o = missed.Obj
	}
	if id, ok := agentOf(o); ok {
		h.Gone(id)
	}
}

// agentOf returns the agent that an object belongs to. A foreign object with labels copied from one of ours belongs to
// none.
func agentOf(o any) (string, bool) {
	switch o := o.(type) {
	case *corev1.Pod:
		return agent.IDFromNamespace(o.Namespace)
	case *corev1.Namespace:
		return agent.IDFromNamespace(o.Name)
	case *corev1.PersistentVolume:
		if o.Spec.ClaimRef != nil {
			return agent.IDFromNamespace(o.Spec.ClaimRef.Namespace)
		}
	}
	return "", false
}

// readySince is when the pod's readiness last changed.
func readySince(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}
