// Package simulator simulates the machines of a cluster: nodes are ready, a kubelet runs the pods that the scheduler
// bound, and claims get volumes. Pods whose images it knows run as processes; package podworker says how. For all other
// pods, it only writes to the API what a kubelet would report. It is a client of any API server, embedded or real. It
// does not schedule pods, but Refuse tells schedulers which nodes may not take one.
//
// # Pods
//
// A bound pod is created, runs and becomes ready within some 50 ms; deleted, it ends in good order and is gone. A pod
// whose restart policy is not Always is a batch job: its containers end with exit code 0 after a second.
//
// # Faults
//
// Faults affect processes, too: crash-loop and oom kill them, image-pull ends them and starts none, and not-ready and
// slow override the readiness of containers other than sidecars.
//
// All pods of a namespace suffer the fault that the namespace is annotated with:
//
//	simulator.agents.example/fault: image-pull
//
// Where a fault must be there before the namespace is, the ConfigMap simulator-faults in kube-system, which exists in
// every cluster, maps the names of namespaces to faults. The annotation wins. Setting a fault breaks pods that run,
// removing it heals them, both immediately.
//
//	image-pull      containers cannot start: ErrImagePull, then ImagePullBackOff; those that run lose their image and
//	                stop
//	crash-loop      containers exit with code 1 soon after each start: CrashLoopBackOff, restartCount rises
//	oom             the same with OOMKilled and exit code 137
//	unschedulable   no node takes a new pod: the scheduler reports Unschedulable; pods that run are evicted, as from a
//	                node that is drained
//	not-ready       containers run and never become ready
//	slow=<duration> containers become ready that long (a Go duration such as 5s) after they started
//
// Back-off is a kubelet's, 40 times faster: from 250 ms doubling to 7.5 s. As with a kubelet, a crashing container
// without a readiness probe is ready for the moment that it runs. An unknown fault is none, with a warning in
// the log.
package simulator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"agents.example/controlplane/emulators/kubeclient"
	"agents.example/controlplane/emulators/simulator/podworker"
	"agents.example/controlplane/emulators/simulator/realnode"
)

// domain is the namespace of the names that the simulator gives.
const domain = "simulator.agents.example"

// Simulator plays one cluster's nodes and volumes.
type Simulator struct {
	client  *kubeclient.Client
	options Options
	faults  *faults
	runtime *podworker.Runtime
	watched watched

	podQueue    *queue
	nodeQueue   *queue
	claimQueue  *queue
	snapshotter snapshotter
	addresses   addresses
	clocks      sync.Map // key of a pod → clock
	reports     sync.Map // key of a pod → reported
}

// watched are the objects that the simulator watches.
type watched struct {
	pods       kubeclient.Informer[*corev1.Pod]
	claims     kubeclient.Informer[*corev1.PersistentVolumeClaim]
	volumes    kubeclient.Informer[*corev1.PersistentVolume]
	namespaces kubeclient.Informer[*corev1.Namespace]
	faults     kubeclient.Informer[*corev1.ConfigMap] // only the ConfigMap of faults
	realNode   kubeclient.Informer[*corev1.Node]      // only the node that runs containers
}

// Options configure New.
type Options struct {
	Dir      string            // where pods that run as processes keep volumes and logs; absolute
	Images   map[string]string // directories of programs by image
	Kubelets netip.AddrPort    // where the kubelets of all nodes listen
	Block    netip.Prefix      // the addresses of pods that run as processes
	// NodeSocket is the socket of the node that runs containers; empty without one.
	NodeSocket string
	Log        *slog.Logger // nil discards it
}

// New makes a simulator of the cluster that client, an administrator's and without a rate limit, talks to. Nothing
// happens before Run.
func New(client *kubeclient.Client, o Options) (*Simulator, error) {
	if len(o.Images) > 0 && !o.Block.IsValid() {
		return nil, errors.New("pods cannot run as processes: this operating system has only one loopback address, " +
			"and every pod needs its own; use Linux, or no images")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Simulator{client: client, options: o, faults: newFaults(o.Log)}
	var err error
	if s.watched, err = newWatched(client); err != nil {
		return nil, err
	}
	s.podQueue = s.newQueue("pod", s.syncPod)
	s.nodeQueue = s.newQueue("node", s.wakeScheduler)
	s.claimQueue = s.newQueue("claim", s.syncClaim)
	s.snapshotter = snapshotter{
		snapshots: s.newQueue("snapshot", s.syncSnapshot), contents: s.newQueue("snapshot content", s.syncContent),
		sources: s.newQueue("claim of a snapshot", s.syncSource), disks: disks{now: time.Now},
	}
	s.runtime, err = podworker.New(podworker.Options{
		Images: o.Images, Dir: o.Dir, Objects: objects{client}, Block: o.Block, HostIP: o.Kubelets.Addr().String(),
		Wake: func(pod types.NamespacedName) { s.podQueue.keys.Add(pod.String()) },
	})
	return s, err
}

func newWatched(client *kubeclient.Client) (w watched, err error) {
	var failures [6]error
	w.pods, failures[0] = kubeclient.NewInformer(client.Pods(metav1.NamespaceAll), "")
	w.claims, failures[1] = kubeclient.NewInformer(client.PersistentVolumeClaims(metav1.NamespaceAll), "")
	w.volumes, failures[2] = kubeclient.NewInformer(client.PersistentVolumes(), "")
	w.namespaces, failures[3] = kubeclient.NewInformer(client.Namespaces(), "")
	w.faults, failures[4] = kubeclient.NewInformer(client.ConfigMaps(metav1.NamespaceSystem), named(FaultsConfigMap))
	w.realNode, failures[5] = kubeclient.NewInformer(client.Nodes(), named(realnode.Name))
	return w, errors.Join(failures[:]...)
}

// named selects the object with a name.
func named(name string) string { return metav1.ObjectNameField + "=" + name }

// objects reads what pods refer to.
type objects struct{ client *kubeclient.Client }

// ConfigMap implements podworker.Objects.
func (o objects) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return o.client.ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Secret implements podworker.Objects.
func (o objects) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return o.client.Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Claim implements podworker.Objects.
func (o objects) Claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	return o.client.PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Run simulates until ctx ends. It fails only if it cannot begin.
func (s *Simulator) Run(ctx context.Context) error {
	defer s.runtime.Close() // after the workers
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	for _, q := range []*queue{s.snapshotter.snapshots, s.snapshotter.contents, s.snapshotter.sources} {
		context.AfterFunc(ctx, q.keys.ShutDown) // they do not run in a cluster that ends before it knows snapshots
	}
	w := s.watched
	volumeQueue := s.newQueue("volume", s.syncVolume)
	realNodeQueue := s.newQueue("node", s.syncRealNode)
	var synced []cache.InformerSynced
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		w.pods.SharedIndexInformer:       s.podQueue,
		w.claims.SharedIndexInformer:     s.claimQueue,
		w.volumes.SharedIndexInformer:    volumeQueue,
		w.namespaces.SharedIndexInformer: s.watchNamespaces(),
		w.faults.SharedIndexInformer:     s.watchFaultsConfigMap(),
		w.realNode.SharedIndexInformer:   realNodeQueue,
	} {
		handled, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		synced = append(synced, handled.HasSynced)
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil // ctx ended
	}
	s.addresses.skipUsed(w.pods.List(metav1.NamespaceAll))
	if err := s.pruneVolumes(); err != nil {
		return err
	}
	for q, count := range map[*queue]int{
		s.podQueue: 16, s.claimQueue: 8, volumeQueue: 8, s.nodeQueue: 1, realNodeQueue: 1,
	} {
		q.run(ctx, &running, count)
	}
	if s.options.NodeSocket != "" {
		running.Go(func() { s.watchRealNode(ctx, realNodeQueue) })
	}
	return s.runSnapshots(ctx, &running)
}
