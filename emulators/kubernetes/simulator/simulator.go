// Package simulator simulates the machines of a cluster: nodes are ready, a kubelet runs the pods that the scheduler
// bound, and claims get volumes. It only writes to the API what these would report. It does not run containers, store
// files, or provide logs, exec and port-forwarding.
//
// # Pods
//
// A bound pod is created, runs and becomes ready within some 50 ms; deleted, it ends in good order and is gone. A pod
// whose restart policy is not Always is a batch job: its containers end with exit code 0 after a second.
//
// # Faults
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
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// domain is the namespace of the names that the simulator gives.
const domain = "simulator.agents.example"

// Simulator plays one cluster's nodes and volumes.
type Simulator struct {
	client kubernetes.Interface
	faults *faults

	pods   corelisters.PodLister
	claims corelisters.PersistentVolumeClaimLister
	vols   corelisters.PersistentVolumeLister

	podQueue  *queue
	nodeQueue *queue
	addresses addresses
	clocks    sync.Map // key of a pod → clock
}

// New makes a simulator of the cluster that client, an administrator's and without a rate limit, talks to. Nothing
// happens before Run.
func New(client kubernetes.Interface) *Simulator {
	s := &Simulator{client: client, faults: newFaults()}
	s.podQueue = newQueue("pod", s.syncPod)
	s.nodeQueue = newQueue("node", s.wakeScheduler)
	return s
}

// Run simulates until ctx ends. It fails only if it cannot begin.
func (s *Simulator) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	factory := informers.NewSharedInformerFactory(s.client, 0)
	listed := informers.NewSharedInformerFactoryWithOptions(s.client, 0,
		informers.WithNamespace(metav1.NamespaceSystem),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, FaultsConfigMap).String()
		}))
	defer factory.Shutdown()
	defer listed.Shutdown()
	defer cancel() // before the factories wait for their informers

	core := factory.Core().V1()
	s.pods, s.claims, s.vols = core.Pods().Lister(), core.PersistentVolumeClaims().Lister(),
		core.PersistentVolumes().Lister()
	claimQueue, volumeQueue := newQueue("claim", s.syncClaim), newQueue("volume", s.syncVolume)
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		core.Pods().Informer():                     s.podQueue,
		core.PersistentVolumeClaims().Informer():   claimQueue,
		core.PersistentVolumes().Informer():        volumeQueue,
		core.Namespaces().Informer():               s.watchNamespaces(),
		listed.Core().V1().ConfigMaps().Informer(): s.watchFaultsConfigMap(),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	factory.Start(ctx.Done())
	listed.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	listed.WaitForCacheSync(ctx.Done())
	if err := s.addresses.skipUsed(s.pods); err != nil {
		return err
	}
	for q, count := range map[*queue]int{s.podQueue: 16, claimQueue: 8, volumeQueue: 8, s.nodeQueue: 1} {
		q.run(ctx, &workers, count)
	}
	<-ctx.Done()
	return nil
}
