// Package policy enforces the NetworkPolicies of a cluster for the pods of one node. The decisions are those of
// sigs.k8s.io/kube-network-policies; this package gives it packets from the kernel's NFQUEUE.
//
// Policies decide which connections begin. A change of policy does not cut connections that exist. Packets of the node
// itself, such as the kubelet's probes, are not filtered. Pods have IPv4 addresses only, so IPv6 is dropped. Pods and
// policies arrive on separate watches: a policy must exist before its pod has an address, or the pod's first packets
// may precede it.
package policy

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/kube-network-policies/pkg/api"
	"sigs.k8s.io/kube-network-policies/pkg/network"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
	"sigs.k8s.io/kube-network-policies/pkg/podinfo"
)

// Options configure Run.
type Options struct {
	Client kubernetes.Interface // reads Pods, Namespaces and NetworkPolicies
	Node   string
	Pods   netip.Prefix         // the addresses of all pods of the node
	Queue  uint16               // the number of the NFQUEUE in the network namespace
	Ready  func()               // optional; called when policies are enforced
	Denied func(network.Packet) // optional; called with each packet that a decision drops; may be called concurrently
}

// Run enforces policies in the network namespace of the calling thread until the context ends. Then it removes its
// rules. They stay when Run returns an error or its process dies: the kernel drops packets that no process reads from
// the queue, so pods begin no new connections.
func Run(ctx context.Context, o Options) error {
	// Until the queue is read, the rules drop what they would queue.
	if err := replaceRules(o.Pods, drop()); err != nil {
		return fmt.Errorf("policy: add nftables rules: %w", err)
	}
	if err := enforce(ctx, o); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	if err := removeRules(); err != nil {
		return fmt.Errorf("policy: remove nftables rules: %w", err)
	}
	return nil
}

// Check returns an error if the kernel lacks what Run needs. Use it in a network namespace that is of no further use.
func Check(ctx context.Context, pods netip.Prefix) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &filter{}
	if _, err := f.open(ctx); err != nil {
		return fmt.Errorf("policy: open a queue of packets: %w", err)
	}
	defer f.close()
	if err := replaceRules(pods, enqueue(f.Queue)); err != nil {
		return fmt.Errorf("policy: queue packets: %w", err)
	}
	return nil
}

func enforce(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactory(o.Client, 0)
	defer factory.Shutdown()
	defer cancel()
	f, err := newFilter(o, factory)
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if ctx.Err() != nil {
		return nil
	}
	failed, err := f.open(ctx)
	if err != nil {
		return fmt.Errorf("open queue %d: %w", o.Queue, err)
	}
	defer f.close()
	if err := replaceRules(o.Pods, enqueue(o.Queue)); err != nil {
		return fmt.Errorf("add nftables rules: %w", err)
	}
	if o.Ready != nil {
		o.Ready()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return fmt.Errorf("read queue %d: %w", o.Queue, err)
	}
}

// newFilter makes the informers that the factory starts.
func newFilter(o Options, factory informers.SharedInformerFactory) (*filter, error) {
	pods, namespaces := factory.Core().V1().Pods(), factory.Core().V1().Namespaces()
	if err := pods.Informer().AddIndexers(cache.Indexers{addressIndex: addressesOf}); err != nil {
		return nil, err
	}
	f := &filter{
		Options: o, pods: byAddress{pods.Informer().GetIndexer()}, namespaces: namespaces.Lister(),
		changed: make(chan struct{}), late: make(chan struct{}, lateMax),
	}
	known := podinfo.NewInformerProvider(pods, namespaces, nil, []podinfo.IPResolver{f.pods})
	standard := networkpolicy.NewStandardNetworkPolicy(
		o.Node, namespaces, pods, factory.Networking().V1().NetworkPolicies())
	f.engine = networkpolicy.NewPolicyEngine(known, []api.PolicyEvaluator{standard})
	for _, informer := range []cache.SharedIndexInformer{pods.Informer(), namespaces.Informer()} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { f.wake() },
			UpdateFunc: func(any, any) { f.wake() },
			DeleteFunc: func(any) { f.wake() },
		}); err != nil {
			return nil, err
		}
	}
	return f, nil
}

const addressIndex = "address"

// addressesOf indexes pods by their addresses. A pod that has ended keeps its address in its status, but the node gives
// the address to another pod: the policies of the first one must not apply to the second one.
func addressesOf(object any) ([]string, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.HostNetwork || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil, nil
	}
	addresses := make([]string, len(pod.Status.PodIPs))
	for i, ip := range pod.Status.PodIPs {
		addresses[i] = ip.IP
	}
	return addresses, nil
}

// byAddress implements podinfo.IPResolver. An address that two pods report belongs to no known pod.
type byAddress struct{ pods cache.Indexer }

func (b byAddress) LookupPod(ip string) (string, bool) {
	keys, err := b.pods.IndexKeys(addressIndex, ip)
	if err != nil || len(keys) != 1 {
		return "", false
	}
	return keys[0], true
}
