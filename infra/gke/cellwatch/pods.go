package cellwatch

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane/notifier"
)

// labelAgent is the label of the pods and namespaces of agents. Package gke sets it.
const labelAgent = "agents.example/agent-id"

// Notifier receives the changes.
type Notifier interface {
	// PodFound reports a pod of the first list, and PodAdded a later one.
	PodFound(agentID string, p notifier.Pod)
	PodAdded(agentID string, p notifier.Pod)
	PodChanged(agentID string, before, after notifier.Pod)
	// Gone reports that a pod, a namespace or a volume does not exist anymore.
	Gone(agentID string)
}

// Pods watches the pods, namespaces and volumes of a cell's agents, and reports their changes. It decides nothing.
type Pods struct {
	pods, namespaces, volumes cache.SharedIndexInformer
	handlers                  handlers
	close                     func()
}

// NewPods creates a watch that reports to n. It makes no call.
func NewPods(config *rest.Config, n Notifier) (*Pods, error) {
	client, err := Client(config, "agent-notifier", Core())
	if err != nil {
		return nil, err
	}
	w := &Pods{close: func() { utilnet.CloseIdleConnectionsFor(client.Client.Transport) }}
	ofAgents := managed + "," + labelAgent
	w.pods, err = NewInformer(client, "pods", &corev1.Pod{}, ofAgents, stripPods)
	if err != nil {
		return nil, err
	}
	w.namespaces, err = NewInformer(client, "namespaces", &corev1.Namespace{}, ofAgents, stripPods)
	if err != nil {
		return nil, err
	}
	// The cluster makes volumes, without labels of ours.
	w.volumes, err = NewInformer(client, "persistentvolumes", &corev1.PersistentVolume{}, "", stripPods)
	if err != nil {
		return nil, err
	}
	h := handler{n}
	return w, errors.Join(
		w.handlers.add(w.pods, cache.ResourceEventHandlerDetailedFuncs{
			AddFunc: h.podAdded, UpdateFunc: h.podChanged, DeleteFunc: h.gone,
		}),
		w.handlers.add(w.namespaces, cache.ResourceEventHandlerFuncs{DeleteFunc: h.gone}),
		w.handlers.add(w.volumes, cache.ResourceEventHandlerFuncs{DeleteFunc: h.gone}),
	)
}

// Run watches until ctx ends. A connection that ends begins again, without repeating what was reported.
func (w *Pods) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, i := range []cache.SharedIndexInformer{w.pods, w.namespaces, w.volumes} {
		running.Go(func() { i.RunWithContext(ctx) })
	}
	running.Wait()
	w.close()
}

// Synced reports whether the notifier knows the first lists.
func (w *Pods) Synced() bool { return w.handlers.synced() }

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
	if id, ok := agentOf(known(o)); ok {
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
