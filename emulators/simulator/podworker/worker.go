package podworker

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/simulator/kubelet"
	"agents.example/controlplane/emulators/simulator/process"
)

const (
	// reapTime is how soon a worker looks again at processes that must be gone any moment.
	reapTime = 10 * time.Millisecond
	// sidecarGrace is the least time that sidecars have to end, even if the containers used up the pod's.
	sidecarGrace = 2 * time.Second
)

// worker runs one pod.
type worker struct {
	runtime *Runtime
	uid     types.UID
	address netip.Addr
	port    podPort
	dir     string // logs and temporary files

	mu          sync.Mutex
	pod         *corev1.Pod // as of the last step
	fault       kubelet.Fault
	now         time.Time
	hold        time.Duration
	inits       []*container // init containers and sidecars, in order
	mains       []*container
	commands    map[*process.Process]struct{} // that Exec runs
	initialized bool
	endingSince time.Time
}

// newWorker makes the worker of a pod that no process runs for yet.
func newWorker(r *Runtime, pod *corev1.Pod, now time.Time) (*worker, error) {
	address, err := r.addresses.take()
	if err != nil {
		return nil, err
	}
	w := &worker{
		runtime: r, uid: pod.UID, pod: pod, address: address, commands: map[*process.Process]struct{}{},
		dir: filepath.Join(r.options.Dir, "pods", string(pod.UID)),
	}
	if w.port.declared = declaredPort(pod); w.port.declared != 0 {
		if w.port.free, err = r.ports.take(); err != nil {
			r.addresses.release(address)
			return nil, err
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		role := initializer
		if kubelet.IsSidecar(c) {
			role = sidecar
		}
		w.inits = append(w.inits, newContainer(w, c, role, pod.Status.InitContainerStatuses, now))
	}
	for i := range pod.Spec.Containers {
		w.mains = append(w.mains, newContainer(w, &pod.Spec.Containers[i], regular, pod.Status.ContainerStatuses, now))
	}
	return w, nil
}

// release gives back what a pod took whose processes are gone.
func (w *worker) release() {
	w.runtime.addresses.release(w.address)
	w.runtime.ports.release(w.port.free)
	_ = os.RemoveAll(w.dir) // New removes the rest
}

func (w *worker) name() types.NamespacedName {
	return types.NamespacedName{Namespace: w.pod.Namespace, Name: w.pod.Name}
}

// containers returns all containers in the order of their start.
func (w *worker) containers() []*container { return slices.Concat(w.inits, w.mains) }

func (w *worker) step(ctx context.Context, pod *corev1.Pod, m kubelet.Moment) Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	healed := m.Fault != w.fault
	w.pod, w.fault, w.now, w.hold = pod, m.Fault, m.Now, 0
	for _, c := range w.containers() {
		if healed {
			c.forgive()
		}
		c.reap()
	}
	ended := false
	switch {
	case pod.DeletionTimestamp != nil:
		ended = w.end(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
	case w.completed():
		w.end(sidecarGrace)
	default:
		w.run(ctx)
	}
	return Report{Status: w.status(ended), Hold: w.hold, Ended: ended}
}

// after limits the time until the next step to d.
func (w *worker) after(d time.Duration) {
	if w.hold == 0 || d < w.hold {
		w.hold = max(d, time.Millisecond)
	}
}

// run starts and supervises the containers of a pod that is wanted.
func (w *worker) run(ctx context.Context) {
	if !w.initialized {
		w.initialized = w.initialize(ctx)
		if !w.initialized {
			return
		}
	}
	for _, c := range w.containers() {
		if c.role != initializer {
			c.keep(ctx)
		}
	}
}

// initialize runs init containers one after the other, next to the sidecars before them.
func (w *worker) initialize(ctx context.Context) bool {
	for _, c := range w.inits {
		if c.role == initializer && c.succeeded() {
			continue
		}
		c.keep(ctx)
		if c.role == initializer || !*c.status.Started {
			return false
		}
	}
	return true
}

// completed reports whether the pod's containers have ended and are not restarted.
func (w *worker) completed() bool {
	for _, c := range w.mains {
		if !c.final() {
			return w.initFailed()
		}
	}
	return true
}

func (w *worker) initFailed() bool {
	for _, c := range w.inits {
		if c.role == initializer && c.final() && !c.succeeded() {
			return true
		}
	}
	return false
}

// end ends the containers, then the sidecars in reverse order, and reports whether all processes are gone.
func (w *worker) end(grace time.Duration) bool {
	if w.endingSince.IsZero() {
		w.endingSince = w.now
	}
	deadline := w.endingSince.Add(grace)
	remain := false
	for _, c := range w.containers() {
		if c.role != sidecar && c.stop(deadline) {
			remain = true
		}
	}
	for i := len(w.inits) - 1; i >= 0 && !remain; i-- {
		if c := w.inits[i]; c.role == sidecar {
			if !c.stopping && deadline.Before(w.now.Add(sidecarGrace)) {
				deadline = w.now.Add(sidecarGrace)
			}
			remain = c.stop(deadline)
		}
	}
	for _, c := range w.containers() {
		c.observe(false)
	}
	return !remain
}

// status composes the pod's status.
func (w *worker) status(ended bool) corev1.PodStatus {
	status := *w.pod.Status.DeepCopy()
	status.PodIP, status.HostIP = w.address.String(), w.runtime.options.HostIP
	status.InitContainerStatuses, status.ContainerStatuses = nil, nil
	for _, c := range w.inits {
		status.InitContainerStatuses = append(status.InitContainerStatuses, *c.status.DeepCopy())
	}
	for _, c := range w.mains {
		status.ContainerStatuses = append(status.ContainerStatuses, *c.status.DeepCopy())
	}
	if ended {
		stopped := w.pod.DeepCopy()
		stopped.Status = status
		return kubelet.Stop(stopped, w.now)
	}
	kubelet.Summarize(w.pod, &status, w.initialized, w.now)
	return status
}

// signal signals all processes.
func (w *worker) signal(s syscall.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.containers() {
		if c.process != nil {
			c.process.Signal(s)
		}
	}
}

// runs reports whether any process runs.
func (w *worker) runs() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.containers() {
		if c.process != nil && !c.exited() {
			return true
		}
	}
	return false
}

// awaitExit waits until all processes and their probes have ended.
func (w *worker) awaitExit() {
	w.mu.Lock()
	containers := slices.DeleteFunc(w.containers(), func(c *container) bool { return c.process == nil })
	w.mu.Unlock()
	for _, c := range containers { // no step follows that could change them
		<-c.process.Done()
		c.probes.stop()
	}
}

// log returns the log of a run of a container.
func (w *worker) log(containerID string) (found runLog, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.containers() {
		for _, l := range c.logs {
			if l.containerID == containerID {
				return l, true
			}
		}
	}
	return runLog{}, false
}
