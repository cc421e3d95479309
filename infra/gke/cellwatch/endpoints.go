package cellwatch

import (
	"cmp"
	"context"
	"net/netip"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/router"
)

// portName is the name of the port of an agent's Service.
const portName = "http"

// Endpoints knows where the agents of a cell are. It implements router.Endpoints. It needs no other right than to get,
// list and watch EndpointSlices.
type Endpoints struct {
	informer cache.SharedIndexInformer
	handlers handlers
	close    func()

	// agents holds the router.Endpoint of every namespace that has a slice. A change of one keeps no lookup waiting.
	agents sync.Map
}

// NewEndpoints prepares the watch of a cell. It makes no call.
func NewEndpoints(config *rest.Config) (*Endpoints, error) {
	client, err := Client(config, "agent-router", Discovery())
	if err != nil {
		return nil, err
	}
	slices, err := NewInformer(client, "endpointslices", &discoveryv1.EndpointSlice{}, ofService, stripEndpoints)
	if err != nil {
		return nil, err
	}
	e := &Endpoints{
		informer: slices, close: func() { utilnet.CloseIdleConnectionsFor(client.Client.Transport) },
	}
	return e, e.handlers.add(slices, cache.ResourceEventHandlerFuncs{
		AddFunc: e.changed, UpdateFunc: func(_, now any) { e.changed(now) }, DeleteFunc: e.changed,
	})
}

// Run watches until ctx ends. While the cluster's API is unavailable, Lookup answers what was true before.
func (e *Endpoints) Run(ctx context.Context) {
	e.informer.RunWithContext(ctx)
	e.close()
}

// AwaitSync waits until Lookup knows all agents. Before, a router would deny that they exist. Run must be running.
func (e *Endpoints) AwaitSync(ctx context.Context) error { return e.handlers.awaitSync(ctx) }

// Lookup implements router.Endpoints.
func (e *Endpoints) Lookup(namespace string) router.Endpoint {
	found, _ := e.agents.Load(namespace)
	endpoint, _ := found.(router.Endpoint) // the zero value is Unknown
	return endpoint
}

// changed brings an agent's endpoint up to date with all slices of its namespace. The informer makes one call after the
// other.
func (e *Endpoints) changed(object any) {
	namespace, slices, ok := slicesOf(e.informer, object)
	if !ok {
		return
	}
	endpoint := router.Endpoint{}
	for _, s := range slices {
		endpoint = merge(endpoint, s)
	}
	if endpoint.State == router.Unknown {
		e.agents.Delete(namespace)
	} else {
		e.agents.Store(namespace, endpoint)
	}
}

// merge adds what a slice says to an agent's endpoint. A Service has several slices for several families of addresses,
// and while its controller moves endpoints between slices.
func merge(e router.Endpoint, s *discoveryv1.EndpointSlice) router.Endpoint {
	e.Slug = cmp.Or(e.Slug, s.Labels[dataplane.LabelSlug])
	e.State = max(e.State, router.NotReady)
	switch s.Labels[dataplane.LabelStarter] {
	case dataplane.StarterOwner:
		e.State = max(e.State, router.Stopped)
	case dataplane.StarterRequest:
		e.Wakes = true
		e.Organization = cmp.Or(e.Organization, s.Labels[dataplane.LabelOrganization])
		e.Public = cmp.Or(e.Public, dataplane.PublicSetOf(s.Labels))
	}
	addr, ready := readyAddr(s)
	if ready && (e.State != router.Ready || addr.Addr().Less(e.Addr.Addr())) {
		e.State, e.Addr = router.Ready, addr
	}
	return e
}

// readyAddr returns the first address of a slice that accepts requests. One that is terminating is not ready.
func readyAddr(s *discoveryv1.EndpointSlice) (netip.AddrPort, bool) {
	port := uint16(0)
	for _, p := range s.Ports {
		if p.Name != nil && *p.Name == portName && p.Port != nil {
			port = uint16(*p.Port) //nolint:gosec // the API server accepts ports only
		}
	}
	if port == 0 {
		return netip.AddrPort{}, false
	}
	for _, endpoint := range s.Endpoints {
		if endpoint.Conditions.Ready != nil && !*endpoint.Conditions.Ready {
			continue
		}
		for _, text := range endpoint.Addresses {
			if addr, err := netip.ParseAddr(text); err == nil {
				return netip.AddrPortFrom(addr, port), true
			}
		}
	}
	return netip.AddrPort{}, false
}

// stripEndpoints keeps of a slice what merge reads.
func stripEndpoints(object any) (any, error) {
	s, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return object, nil
	}
	kept := &discoveryv1.EndpointSlice{
		ObjectMeta: stripMeta(s), AddressType: s.AddressType, Ports: s.Ports,
	}
	for _, label := range append(dataplane.PublicLabelNames(),
		dataplane.LabelSlug, dataplane.LabelStarter, dataplane.LabelOrganization) {
		if value, ok := s.Labels[label]; ok {
			metav1.SetMetaDataLabel(&kept.ObjectMeta, label, value)
		}
	}
	for _, endpoint := range s.Endpoints {
		kept.Endpoints = append(kept.Endpoints, discoveryv1.Endpoint{
			Addresses:  endpoint.Addresses,
			Conditions: discoveryv1.EndpointConditions{Ready: endpoint.Conditions.Ready},
		})
	}
	return kept, nil
}
