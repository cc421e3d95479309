// Package podworker runs the containers of pods as processes of this machine, as a kubelet and a container runtime do:
// init containers and sidecars in order, probes, restarts with back-off, logs, and an orderly end. It does not write to
// the API server: its caller does that with what Step reports.
//
// # Images
//
// An image is a directory of programs. A container runs the program that the last element of command[0] names, or the
// program entrypoint if it has no command; args follow as usual. A container's environment is what the pod declares,
// with values from ConfigMaps, Secrets and fields, in addition to PATH, HOME, HOSTNAME, TMPDIR and DATA_DIR. The files
// of images, limits, users and security contexts of containers have no effect: processes run as the user of this
// process, in a directory of their pod, which TMPDIR names, and HOME if the pod does not set it.
//
// # Volumes
//
// The variable DATA_DIR of a container that mounts a PersistentVolumeClaim is the directory of its volume, whatever the
// pod says. It is kept as long as the PersistentVolume. Projected volumes have the files of their ConfigMaps and
// Secrets. All processes see one file system, so values of variables and arguments that are paths at or below a mount
// of their container become paths of this machine. All other volumes are the directory of the pod.
//
// # Network
//
// Each pod has a separate address from 127.0.0.0/8, to which its servers should bind (status.podIP). All pods share the
// machine's network, though, and 127.0.0.1 with it. Therefore every pod gets a free port in place of the one that its
// containers declare by a literal variable PORT: the variables PORT, AGENT_PORT and AGENT_API_PORT of all its
// containers change to the free port if their value is the declared one, and so do the probes of that port, by number
// or by name. Other ports are as declared, so only one server may bind to such a port at all addresses.
//
// # Probes
//
// httpGet and tcpSocket probes go to the pod's address; exec and gRPC probes always succeed. Until the first success of
// a startup or readiness probe, it is repeated after 10 ms, 20 ms and so on up to its period, so that a pod becomes
// ready as soon as its program answers; only failures after that count for the threshold.
package podworker

import (
	"context"
	"fmt"
	"maps"
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
)

// shutdownGrace is the time between SIGTERM and SIGKILL when the cluster stops.
const shutdownGrace = 2 * time.Second

// Options configure New; all are required.
type Options struct {
	Images  map[string]string // directories of programs by image
	Dir     string            // where the runtime keeps volumes, logs and temporary directories; absolute
	Objects Objects
	Block   netip.Prefix // the addresses of pods
	HostIP  string
	Wake    func(pod types.NamespacedName) // asks for a Step of the pod, soon; must not block
}

// Objects reads the objects that pods refer to. Its errors are those of the API.
type Objects interface {
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	Claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error)
}

// Runtime runs the pods of all nodes. Its methods may be called from any goroutine, but never concurrently for a pod.
type Runtime struct {
	options   Options
	addresses *addresses
	ports     *ports

	commands sync.WaitGroup // that Exec runs

	mu      sync.Mutex
	workers map[types.NamespacedName]*worker
	closed  bool // no more commands

	copies sync.RWMutex // held to read a snapshot, and exclusively to remove one
}

// New makes a runtime. It removes what an earlier one left of pods, whose processes ended with it.
func New(o Options) (*Runtime, error) {
	if err := os.RemoveAll(filepath.Join(o.Dir, "pods")); err != nil {
		return nil, fmt.Errorf("remove the files of earlier pods: %w", err)
	}
	return &Runtime{
		options: o, addresses: newAddresses(o.Block), ports: &ports{},
		workers: map[types.NamespacedName]*worker{},
	}, nil
}

// Runs reports whether the runtime knows the images of all containers of the pod.
func (r *Runtime) Runs(pod *corev1.Pod) bool {
	if len(r.options.Images) == 0 {
		return false
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if _, known := r.options.Images[list[i].Image]; !known {
				return false
			}
		}
	}
	return true
}

// Has reports whether the runtime worked on the pod before.
func (r *Runtime) Has(pod *corev1.Pod) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok := r.workers[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
	return ok && w.uid == pod.UID
}

// Report says how a pod is.
type Report struct {
	Status corev1.PodStatus
	Hold   time.Duration // until the next Step, unless Wake is called before; 0 means forever
	Ended  bool          // all processes of a deleted pod are gone
}

// Step starts, restarts or ends processes of the pod, and reports its status. A deleted pod ends gracefully.
func (r *Runtime) Step(ctx context.Context, pod *corev1.Pod, m kubelet.Moment) (Report, error) {
	w, err := r.worker(pod, m.Now)
	if err != nil {
		return Report{}, err
	}
	if w == nil { // a pod of the same name still ends
		return Report{Status: pod.Status, Hold: reapTime}, nil
	}
	return w.step(ctx, pod, m), nil
}

// worker returns the pod's worker, or nil while the processes of another pod of its name end.
func (r *Runtime) worker(pod *corev1.Pod, now time.Time) (*worker, error) {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok := r.workers[name]
	if ok && w.uid == pod.UID {
		return w, nil
	}
	if ok {
		w.signal(syscall.SIGKILL)
		if w.runs() {
			return nil, nil //nolint:nilnil // documented
		}
		delete(r.workers, name)
		w.awaitExit()
		w.release()
	}
	w, err := newWorker(r, pod, now)
	if err != nil {
		return nil, err
	}
	r.workers[name] = w
	return w, nil
}

// Forget kills what is left of a pod that no longer exists, and removes its files.
func (r *Runtime) Forget(name types.NamespacedName) {
	r.mu.Lock()
	w := r.workers[name]
	delete(r.workers, name)
	r.mu.Unlock()
	if w != nil {
		w.signal(syscall.SIGKILL)
		w.awaitExit()
		w.release()
	}
}

// Close ends all processes: SIGTERM, then SIGKILL. No Step may run or follow.
func (r *Runtime) Close() {
	r.mu.Lock()
	r.closed = true
	workers := slices.Collect(maps.Values(r.workers))
	r.mu.Unlock()
	for _, w := range workers {
		w.signal(syscall.SIGTERM)
	}
	grace := time.AfterFunc(shutdownGrace, func() {
		for _, w := range workers {
			w.signal(syscall.SIGKILL)
		}
	})
	for _, w := range workers {
		w.awaitExit()
	}
	grace.Stop()
	r.commands.Wait()
}

// Log is the log of one run of a container, in the format of the container runtime interface.
type Log struct {
	Path string
	Done <-chan struct{} // closed when the container has exited
}

// Log returns the log of a container that runs or was the last to run before.
func (r *Runtime) Log(name types.NamespacedName, containerID string) (Log, bool) {
	r.mu.Lock()
	w := r.workers[name]
	r.mu.Unlock()
	if w == nil {
		return Log{}, false
	}
	found, ok := w.log(containerID)
	return Log{Path: found.path, Done: found.done}, ok
}

// volumes is the directory of all volumes' directories.
func (r *Runtime) volumes() string { return filepath.Join(r.options.Dir, "volumes") }

// RemoveVolume removes the directory of a PersistentVolume that no longer exists.
func (r *Runtime) RemoveVolume(name string) error {
	if err := os.RemoveAll(filepath.Join(r.volumes(), name)); err != nil {
		return fmt.Errorf("remove the directory of volume %s: %w", name, err)
	}
	return nil
}

// Volumes returns the names of the PersistentVolumes that have a directory.
func (r *Runtime) Volumes() ([]string, error) { return namesIn(r.volumes()) }

// volume returns the directory of the volume that a pod's claim is bound to, and creates it.
func (r *Runtime) volume(ctx context.Context, namespace, claim string) (string, error) {
	c, err := r.options.Objects.Claim(ctx, namespace, claim)
	if err != nil {
		return "", fmt.Errorf("persistentvolumeclaim %q: %w", claim, err)
	}
	if c.Spec.VolumeName == "" {
		return "", fmt.Errorf("persistentvolumeclaim %q is not bound", claim)
	}
	return r.MakeVolume(c.Spec.VolumeName)
}

// MakeVolume makes the directory of a PersistentVolume, if it does not exist.
func (r *Runtime) MakeVolume(name string) (dir string, err error) {
	dir = filepath.Join(r.volumes(), name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the directory of volume %s: %w", name, err)
	}
	return dir, nil
}
