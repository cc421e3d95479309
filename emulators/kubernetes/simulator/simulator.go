// Package simulator simulates the machines of a cluster: nodes are ready, a kubelet runs the pods that the scheduler
// bound, and claims get volumes. Pods whose images it knows run as processes; package podworker says how. For all other
// pods, it only writes to the API what a kubelet would report. It does not provide exec and port-forwarding.
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
//	image-pull      containers cannot start: ErrImagePull, then ImagePullBackOff; those that run lose their image and stop
//	crash-loop      containers exit with code 1 soon after each start: CrashLoopBackOff, restartCount rises
//	oom             the same with OOMKilled and exit code 137
//	unschedulable   no node takes a new pod: the scheduler reports Unschedulable; pods that run are evicted, as from a node that is drained
//	not-ready       containers run and never become ready
//	slow=<duration> containers become ready that long (a Go duration such as 5s) after they started
//
// Back-off is a kubelet's, 40 times faster: from 250 ms doubling to 7.5 s. As with a kubelet, a crashing container
// without a readiness probe is ready for the moment that it runs. An unknown fault is none, with a complaint on
// standard error.
package simulator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"agents.example/controlplane/emulators/kubernetes/podworker"
)

// domain is the namespace of the names that the simulator gives.
const domain = "simulator.agents.example"

// Simulator plays one cluster's nodes and volumes.
type Simulator struct {
	client  kubernetes.Interface
	options Options
	faults  *faults
	runtime *podworker.Runtime

	factory informers.SharedInformerFactory
	pods    corelisters.PodLister
	claims  corelisters.PersistentVolumeClaimLister
	vols    corelisters.PersistentVolumeLister

	podQueue  *queue
	nodeQueue *queue
	addresses addresses
	clocks    sync.Map // key of a pod → clock
	reports   sync.Map // key of a pod → reported
}

// Options configure New.
type Options struct {
	Dir      string            // where pods that run as processes keep volumes and logs; absolute
	Images   map[string]string // directories of programs by image
	Kubelets netip.AddrPort    // where the kubelets of all nodes listen
	Block    netip.Prefix      // the addresses of pods that run as processes
	// NodeSocket is the socket of the node that runs containers; empty without one.
	NodeSocket string
}

// New makes a simulator of the cluster that client, an administrator's and without a rate limit, talks to. Nothing
// happens before Run.
func New(client kubernetes.Interface, o Options) (*Simulator, error) {
	if len(o.Images) > 0 && !o.Block.IsValid() {
		return nil, errors.New("pods cannot run as processes: this operating system has only one loopback address, " +
			"and every pod needs its own; use Linux, or no images")
	}
	s := &Simulator{
		client: client, options: o, faults: newFaults(), factory: informers.NewSharedInformerFactory(client, 0),
	}
	core := s.factory.Core().V1()
	s.pods, s.claims, s.vols = core.Pods().Lister(), core.PersistentVolumeClaims().Lister(),
		core.PersistentVolumes().Lister()
	s.podQueue = newQueue("pod", s.syncPod)
	s.nodeQueue = newQueue("node", s.wakeScheduler)
	var err error
	s.runtime, err = podworker.New(podworker.Options{
		Images: o.Images, Dir: o.Dir, Client: client, Block: o.Block, HostIP: o.Kubelets.Addr().String(),
		Wake: func(pod types.NamespacedName) { s.podQueue.keys.Add(pod.String()) },
	})
	return s, err
}

// Run simulates until ctx ends. It fails only if it cannot begin.
func (s *Simulator) Run(ctx context.Context) error {
	defer s.runtime.Close() // after the workers
	var workers sync.WaitGroup
	defer workers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	listed := informers.NewSharedInformerFactoryWithOptions(s.client, 0,
		informers.WithNamespace(metav1.NamespaceSystem),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, FaultsConfigMap).String()
		}))
	realNode := s.newRealNodeInformers()
	defer s.factory.Shutdown()
	defer listed.Shutdown()
	defer realNode.Shutdown()
	defer cancel() // before the factories wait for their informers

	core := s.factory.Core().V1()
	claimQueue, volumeQueue := newQueue("claim", s.syncClaim), newQueue("volume", s.syncVolume)
	realNodeQueue := newQueue("node", s.syncRealNode)
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		core.Pods().Informer():                     s.podQueue,
		core.PersistentVolumeClaims().Informer():   claimQueue,
		core.PersistentVolumes().Informer():        volumeQueue,
		core.Namespaces().Informer():               s.watchNamespaces(),
		listed.Core().V1().ConfigMaps().Informer(): s.watchFaultsConfigMap(),
		realNode.Core().V1().Nodes().Informer():    realNodeQueue,
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	s.factory.Start(ctx.Done())
	listed.Start(ctx.Done())
	realNode.Start(ctx.Done())
	s.factory.WaitForCacheSync(ctx.Done())
	listed.WaitForCacheSync(ctx.Done())
	if err := s.addresses.skipUsed(s.pods); err != nil {
		return err
	}
	if err := s.pruneVolumes(); err != nil {
		return err
	}
	for q, count := range map[*queue]int{
		s.podQueue: 16, claimQueue: 8, volumeQueue: 8, s.nodeQueue: 1, realNodeQueue: 1,
	} {
		q.run(ctx, &workers, count)
	}
	if s.options.NodeSocket != "" {
		workers.Go(func() { s.watchRealNode(ctx, realNodeQueue) })
	}
	<-ctx.Done()
	return nil
}
