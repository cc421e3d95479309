package simulator

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"agents.example/controlplane/emulators/simulator/kubelet"
	"agents.example/controlplane/emulators/simulator/podworker"
	"agents.example/controlplane/emulators/simulator/realnode"
)

// clock holds the times of one pod, because the API's timestamps have whole seconds only.
type clock struct {
	uid     types.UID // of the pod; a StatefulSet reuses the name
	fault   kubelet.Fault
	started time.Time // the youngest container's start; zero where it was before the simulator's
	due     time.Time // no state change is due before; zero if none is due at all
}

// reported is the status that a pod's kubelet reported last.
type reported struct {
	uid    types.UID // of the pod; a StatefulSet reuses the name
	status corev1.PodStatus
}

// syncPod advances the status of a bound pod by one step, or ends a deleted one.
func (s *Simulator) syncPod(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	pod, ok := s.watched.pods.Get(key)
	if !ok {
		s.clocks.Delete(key)
		s.reports.Delete(key)
		s.runtime.Forget(types.NamespacedName{Namespace: namespace, Name: name})
		return nil
	}
	switch {
	case pod.Spec.NodeName == "":
		return nil
	case pod.Spec.NodeName == realnode.Name:
		return s.syncContainers(ctx, pod)
	case pod.DeletionTimestamp != nil && s.runtime.Runs(pod):
		return s.stepProcesses(ctx, pod, s.faults.of(namespace))
	case pod.DeletionTimestamp != nil:
		return s.end(ctx, pod)
	case s.runtime.Has(pod):
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return nil
	}
	told := s.faults.of(namespace)
	if told.Unschedulable() || s.needsContainers(pod) {
		return s.evict(ctx, pod)
	}
	if s.runtime.Runs(pod) {
		return s.stepProcesses(ctx, pod, told)
	}
	c := s.clock(key, pod)
	now := time.Now()
	if c.fault == told && now.Before(c.due) {
		s.podQueue.keys.AddAfter(key, c.due.Sub(now))
		return nil
	}
	c.fault, c.due = told, time.Time{}
	return s.step(ctx, pod, c, now)
}

func (s *Simulator) clock(key string, pod *corev1.Pod) clock {
	if known, _ := s.clocks.Load(key); known != nil {
		if c, ok := known.(clock); ok && c.uid == pod.UID {
			return c
		}
	}
	return clock{uid: pod.UID}
}

// step writes the next report of the kubelet and schedules the one after.
func (s *Simulator) step(ctx context.Context, pod *corev1.Pod, c clock, now time.Time) error {
	if pod.Status.PodIP == "" {
		pod = pod.DeepCopy()
		pod.Status.PodIP, pod.Status.HostIP = s.addresses.take(), s.options.Kubelets.Addr().String()
	}
	report := kubelet.Next(pod, kubelet.Moment{Fault: c.fault, Now: now, Started: c.started})
	if err := s.writeStatus(ctx, pod, report.Status); err != nil {
		return err
	}
	key := cache.MetaObjectToName(pod).String()
	c.started = report.Started
	if report.Hold > 0 {
		c.due = now.Add(report.Hold)
		s.podQueue.keys.AddAfter(key, report.Hold)
	}
	s.clocks.Store(key, c)
	return nil
}

// stepProcesses makes the runtime work on a pod that runs as processes, and writes what it reports.
func (s *Simulator) stepProcesses(ctx context.Context, pod *corev1.Pod, fault kubelet.Fault) error {
	report, err := s.runtime.Step(ctx, pod, kubelet.Moment{Fault: fault, Now: time.Now()})
	if err != nil {
		return err
	}
	if report.Hold > 0 {
		s.podQueue.keys.AddAfter(cache.MetaObjectToName(pod).String(), report.Hold)
	}
	if err := s.writeStatus(ctx, pod, report.Status); err != nil || !report.Ended {
		return err
	}
	return s.remove(ctx, pod)
}

// writeStatus writes the status of a pod if it changed.
func (s *Simulator) writeStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	s.reports.Store(cache.MetaObjectToName(pod).String(), reported{uid: pod.UID, status: status})
	if equality.Semantic.DeepEqual(status, pod.Status) {
		return nil
	}
	changed := pod.DeepCopy()
	changed.Status = status
	_, err := s.client.Pods(pod.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	return ignoreGone(err)
}

// end stops the containers of a deleted pod in order, immediately, and deletes the pod.
func (s *Simulator) end(ctx context.Context, pod *corev1.Pod) error {
	if err := s.writeStatus(ctx, pod, kubelet.Stop(pod, time.Now())); err != nil {
		return err
	}
	return s.remove(ctx, pod)
}

// remove deletes a pod whose containers have ended.
func (s *Simulator) remove(ctx context.Context, pod *corev1.Pod) error {
	return ignoreGone(s.client.Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	}))
}

// Pod returns a pod of a simulated node by name, with the status that its kubelet reported last. The watch of the API
// server may not have shown it to the simulator yet, but clients may know it already.
func (s *Simulator) Pod(name types.NamespacedName) (*corev1.Pod, error) {
	pod, ok := s.watched.pods.Get(name.String())
	if !ok || pod.Spec.NodeName == realnode.Name {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), name.Name)
	}
	if last, ok := s.reports.Load(name.String()); ok && last.(reported).uid == pod.UID {
		pod = pod.DeepCopy()
		pod.Status = last.(reported).status
	}
	return pod, nil
}

// Log returns the log of one run of a container, unless it is only simulated.
func (s *Simulator) Log(name types.NamespacedName, containerID string) (podworker.Log, bool) {
	return s.runtime.Log(name, containerID)
}

// Exec runs a command in a container that runs as a process, and returns the exit code.
func (s *Simulator) Exec(ctx context.Context, pod types.NamespacedName, container string, c podworker.Command) (int,
	error,
) {
	return s.runtime.Exec(ctx, pod, container, c)
}

// Dial connects to a port of a pod that runs as processes.
func (s *Simulator) Dial(ctx context.Context, pod types.NamespacedName, port int) (net.Conn, error) {
	return s.runtime.Dial(ctx, pod, port)
}

// podKeys returns the queue keys of all pods of a namespace.
func (s *Simulator) podKeys(namespace string) []string {
	pods := s.watched.pods.List(namespace)
	keys := make([]string, 0, len(pods))
	for _, pod := range pods {
		keys = append(keys, cache.MetaObjectToName(pod).String())
	}
	return keys
}

// addresses assigns unique pod addresses from 10.128.0.0/10, four million in total.
type addresses struct {
	mu   sync.Mutex
	last netip.Addr
}

func (a *addresses) take() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.last.IsValid() {
		a.last = netip.AddrFrom4([4]byte{10, 128, 0, 0})
	}
	a.last = a.last.Next()
	return a.last.String()
}

// skipUsed starts after the highest pod address of an earlier run.
func (a *addresses) skipUsed(pods []*corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, pod := range pods {
		if used, err := netip.ParseAddr(pod.Status.PodIP); err == nil && a.last.Less(used) {
			a.last = used
		}
	}
}
