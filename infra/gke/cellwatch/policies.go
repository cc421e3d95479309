package cellwatch

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane/gate"
	"agents.example/controlplane/shared/egress"
)

// Policies knows what the agents of a cell may reach, which their Services say, and the addresses of their pods. It
// implements gate.Policies. It needs no other right than to get, list and watch Services and EndpointSlices, and it
// enforces nothing.
type Policies struct {
	services, slices cache.SharedIndexInformer
	handlers         handlers
	close            func()

	mu sync.RWMutex
	// policies and addresses are by namespace, and owners has the namespaces that claim an address.
	policies  map[string]policy
	addresses map[string][]netip.Addr
	owners    map[netip.Addr][]string
	changed   chan struct{}
}

var _ gate.Policies = (*Policies)(nil)

// policy is an agent with the text that its policy was read from.
type policy struct {
	text  string
	agent gate.Agent
}

// NewPolicies prepares the watch of a cell. It makes no call.
func NewPolicies(config *rest.Config) (*Policies, error) {
	const name = "agent-gate"
	core, err := Client(config, name, Core())
	if err != nil {
		return nil, err
	}
	discovery, err := Client(config, name, Discovery())
	if err != nil {
		return nil, err
	}
	p := &Policies{
		policies: map[string]policy{}, addresses: map[string][]netip.Addr{}, owners: map[netip.Addr][]string{},
		changed: make(chan struct{}),
		close: func() {
			utilnet.CloseIdleConnectionsFor(core.Client.Transport)
			utilnet.CloseIdleConnectionsFor(discovery.Client.Transport)
		},
	}
	if p.services, err = NewInformer(core, "services", &corev1.Service{}, managed, stripService); err != nil {
		return nil, err
	}
	p.slices, err = NewInformer(discovery, "endpointslices", &discoveryv1.EndpointSlice{}, ofService, stripAddresses)
	if err != nil {
		return nil, err
	}
	return p, errors.Join(p.handle(p.services, p.serviceChanged), p.handle(p.slices, p.sliceChanged))
}

// handle calls changed with each object that is there, changes or is gone, one after the other.
func (p *Policies) handle(informer cache.SharedIndexInformer, changed func(object any, gone bool)) error {
	return p.handlers.add(informer, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { changed(now, false) },
		UpdateFunc: func(_, now any) { changed(now, false) },
		DeleteFunc: func(last any) {
			changed(known(last), true)
		},
	})
}

// Run watches until ctx ends. While the cluster's API is unavailable, Lookup answers what was true before.
func (p *Policies) Run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { p.services.RunWithContext(ctx) })
	both.Go(func() { p.slices.RunWithContext(ctx) })
	both.Wait()
	p.close()
}

// AwaitSync waits until Lookup knows all agents. Run must be running.
func (p *Policies) AwaitSync(ctx context.Context) error { return p.handlers.awaitSync(ctx) }

// Lookup implements gate.Policies.
func (p *Policies) Lookup(address netip.Addr) (gate.Agent, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	owners := p.owners[address]
	if len(owners) != 1 {
		return gate.Agent{}, false
	}
	found, ok := p.policies[owners[0]]
	return found.agent, ok
}

// Changed implements gate.Policies.
func (p *Policies) Changed() <-chan struct{} {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.changed
}

// announce tells those who wait that Lookup may answer something else. Its caller holds the lock.
func (p *Policies) announce() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// serviceChanged takes over the policy of an agent. One that cannot be read is none: the agent reaches nothing.
func (p *Policies) serviceChanged(object any, gone bool) {
	s, ok := object.(*corev1.Service)
	if !ok || s.Name != service {
		return
	}
	id, ok := agent.IDFromNamespace(s.Namespace)
	if !ok {
		return
	}
	text, ok := s.Annotations[egress.Annotation]
	p.mu.Lock()
	defer p.mu.Unlock()
	former, had := p.policies[s.Namespace]
	if gone || !ok {
		if had {
			delete(p.policies, s.Namespace)
			p.announce()
		}
		return
	}
	if had && former.text == text {
		return
	}
	if read, err := egress.Decode(text); err == nil {
		p.policies[s.Namespace] = policy{text: text, agent: gate.Agent{ID: id, Policy: &read}}
	} else {
		delete(p.policies, s.Namespace)
	}
	p.announce()
}

// sliceChanged takes over the addresses of an agent's pods from all slices of its namespace.
func (p *Policies) sliceChanged(object any, _ bool) {
	namespace, found, ok := slicesOf(p.slices, object)
	if !ok {
		return
	}
	now := addressesOf(found)
	p.mu.Lock()
	defer p.mu.Unlock()
	former := p.addresses[namespace]
	if slices.Equal(former, now) {
		return
	}
	for _, a := range former {
		p.owners[a] = slices.DeleteFunc(p.owners[a], func(owner string) bool { return owner == namespace })
		if len(p.owners[a]) == 0 {
			delete(p.owners, a)
		}
	}
	for _, a := range now {
		p.owners[a] = append(p.owners[a], namespace)
	}
	p.addresses[namespace] = now
	if len(now) == 0 {
		delete(p.addresses, namespace)
	}
	p.announce()
}

// addressesOf lists the addresses in slices, each once: also those of pods that are not ready, which begin to connect
// before they are, and of those that terminate.
func addressesOf(found []*discoveryv1.EndpointSlice) []netip.Addr {
	var all []netip.Addr
	for _, s := range found {
		for _, endpoint := range s.Endpoints {
			for _, text := range endpoint.Addresses {
				if a, err := netip.ParseAddr(text); err == nil {
					all = append(all, a)
				}
			}
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// stripService keeps the policy of a Service.
func stripService(object any) (any, error) {
	s, ok := object.(*corev1.Service)
	if !ok {
		return object, nil
	}
	stripped := &corev1.Service{ObjectMeta: stripMeta(s)}
	if text, ok := s.Annotations[egress.Annotation]; ok {
		metav1.SetMetaDataAnnotation(&stripped.ObjectMeta, egress.Annotation, text)
	}
	return stripped, nil
}

// stripAddresses keeps the addresses of a slice.
func stripAddresses(object any) (any, error) {
	s, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return object, nil
	}
	stripped := &discoveryv1.EndpointSlice{ObjectMeta: stripMeta(s), AddressType: s.AddressType}
	for _, endpoint := range s.Endpoints {
		stripped.Endpoints = append(stripped.Endpoints, discoveryv1.Endpoint{Addresses: endpoint.Addresses})
	}
	return stripped, nil
}
