//go:build unix

package dataplane

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"agents.example/controlplane/infra/gke/cellwatch"
	"agents.example/controlplane/terraform/cell"
)

// endpoint is a pod of the router that accepts requests.
type endpoint struct{ address, pod string }

// balancer forwards connections to the router's pods, in the place of Google's load balancer. Like that one, it follows
// the EndpointSlices of the router's Service.
type balancer struct {
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	informer cache.SharedIndexInformer
	close    func()

	mu    sync.Mutex
	ready []endpoint
	turn  int
}

// newBalancer prepares the watch of the router's pods. It makes no call.
func newBalancer(config *rest.Config,
	dial func(ctx context.Context, network, address string) (net.Conn, error),
) (*balancer, error) {
	client, err := cellwatch.Client(config, "load-balancer", cellwatch.Discovery())
	if err != nil {
		return nil, err
	}
	all, err := cellwatch.NewInformer(client, "endpointslices", &discoveryv1.EndpointSlice{},
		discoveryv1.LabelServiceName+"="+routerName, func(o any) (any, error) { return o, nil })
	if err != nil {
		return nil, err
	}
	b := &balancer{
		dial: dial, informer: all, close: func() { utilnet.CloseIdleConnectionsFor(client.Client.Transport) },
	}
	_, err = all.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: b.changed, UpdateFunc: func(_, now any) { b.changed(now) }, DeleteFunc: b.changed,
	})
	if err != nil {
		return nil, fmt.Errorf("watch the router's pods: %w", err)
	}
	return b, nil
}

// watch follows the router's pods until ctx ends.
func (b *balancer) watch(ctx context.Context) {
	b.informer.RunWithContext(ctx)
	b.close()
}

// changed reads all slices again: there are few.
func (b *balancer) changed(any) {
	var ready []endpoint
	for _, o := range b.informer.GetStore().List() {
		if s, ok := o.(*discoveryv1.EndpointSlice); ok && s.Namespace == cell.GatewayNamespace {
			ready = append(ready, readyEndpoints(s)...)
		}
	}
	slices.SortFunc(ready, func(a, b endpoint) int {
		return netip.MustParseAddrPort(a.address).Compare(netip.MustParseAddrPort(b.address))
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready = ready
}

// readyEndpoints returns the pods of a slice that accept requests. One that is terminating does not.
func readyEndpoints(s *discoveryv1.EndpointSlice) (ready []endpoint) {
	for _, p := range s.Ports {
		if p.Port == nil {
			continue
		}
		for _, e := range s.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			for _, text := range e.Addresses {
				addr, err := netip.ParseAddr(text)
				if err != nil || e.TargetRef == nil {
					continue
				}
				ready = append(ready, endpoint{
					address: net.JoinHostPort(addr.String(), strconv.Itoa(int(*p.Port))), pod: e.TargetRef.Name,
				})
			}
		}
	}
	return ready
}

// choose returns the address of a pod for the next connection; empty if no pod is ready.
func (b *balancer) choose() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ready) == 0 {
		return ""
	}
	b.turn++
	return b.ready[b.turn%len(b.ready)].address
}

// podName returns the name of the first pod that is ready.
func (b *balancer) podName() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ready) == 0 {
		return "none"
	}
	return b.ready[0].pod
}

// connectTime bounds a connection to a pod.
const connectTime = 5 * time.Second

// serve forwards the connections of a listener until ctx ends.
func (b *balancer) serve(ctx context.Context, l net.Listener) {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var connections sync.WaitGroup
	defer connections.Wait()
	for {
		client, err := l.Accept()
		if err != nil {
			return // the listener is closed
		}
		connections.Go(func() { b.forward(ctx, client) })
	}
}

// forward forwards one connection. A client whose connection ends without an answer knows no more than with Google's
// load balancer.
func (b *balancer) forward(ctx context.Context, client net.Conn) {
	defer client.Close() //nolint:errcheck // the connection is over
	address := b.choose()
	if address == "" {
		return
	}
	connecting, cancel := context.WithTimeout(ctx, connectTime)
	pod, err := b.dial(connecting, "tcp", address)
	cancel()
	if err != nil {
		return
	}
	defer pod.Close() //nolint:errcheck // the connection is over
	stop := context.AfterFunc(ctx, func() {
		_ = client.Close()
		_ = pod.Close()
	})
	defer stop()
	var answer sync.WaitGroup
	answer.Go(func() { copyThenEnd(client, pod) })
	copyThenEnd(pod, client)
	answer.Wait()
}

// copyThenEnd copies until one side ends what it sends, and passes that on. The other direction stays open.
func copyThenEnd(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite() // the other side may be gone
		return
	}
	_ = to.Close()
	_ = from.Close()
}
