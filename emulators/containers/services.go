package main

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// way leads connections to a Service to a pod.
type way struct {
	protocol byte
	from, to netip.AddrPort
}

// toAPIServer makes the address of the Service kubernetes lead to the node, where the way to the API server begins.
func toAPIServer() way {
	return way{
		protocol: unix.IPPROTO_TCP,
		from:     netip.AddrPortFrom(netip.MustParseAddr(apiService), apiServicePort),
		to:       netip.AddrPortFrom(netip.MustParseAddr(nodeAddress), apiServicePort),
	}
}

// proxyServices makes the addresses of Services lead to their pods until ctx ends, as kube-proxy does. All new
// connections of a Service go to the same one of its ready pods.
func proxyServices(ctx context.Context, client kubernetes.Interface) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	defer factory.Shutdown()
	services, endpoints := factory.Core().V1().Services(), factory.Discovery().V1().EndpointSlices()
	changed := make(chan struct{}, 1)
	change := func() {
		select {
		case changed <- struct{}{}:
		default: // it will be seen
		}
	}
	for _, informer := range []cache.SharedInformer{services.Informer(), endpoints.Informer()} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { change() },
			UpdateFunc: func(any, any) { change() },
			DeleteFunc: func(any) { change() },
		})
		if err != nil {
			return err
		}
	}
	factory.StartWithContext(ctx)
	factory.WaitForCacheSync(ctx.Done())
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		found, _ := services.Lister().List(labels.Everything()) // a list in memory returns no error
		ready, _ := endpoints.Lister().List(labels.Everything())
		if err := leadServices(ways(found, ready)); err != nil {
			return err
		}
	}
}

// ways lists where the ports of Services lead.
func ways(services []*corev1.Service, all []*discoveryv1.EndpointSlice) []way {
	found := []way{toAPIServer()}
	for _, s := range services {
		address, err := netip.ParseAddr(s.Spec.ClusterIP)
		if err != nil || !address.Is4() || address.String() == apiService {
			continue // headless, or the first one
		}
		for i := range s.Spec.Ports {
			p := &s.Spec.Ports[i]
			protocol, known := map[corev1.Protocol]byte{
				corev1.ProtocolTCP: unix.IPPROTO_TCP, corev1.ProtocolUDP: unix.IPPROTO_UDP,
			}[p.Protocol]
			to := podOf(s, p, all)
			if known && to.IsValid() {
				from := netip.AddrPortFrom(address, uint16(p.Port)) //nolint:gosec // a port
				found = append(found, way{protocol: protocol, from: from, to: to})
			}
		}
	}
	return found
}

// podOf returns the first address that is ready to serve a port of a Service.
func podOf(s *corev1.Service, p *corev1.ServicePort, all []*discoveryv1.EndpointSlice) netip.AddrPort {
	var found []netip.AddrPort
	for _, slice := range all {
		if slice.Namespace != s.Namespace || slice.Labels[discoveryv1.LabelServiceName] != s.Name ||
			slice.AddressType != discoveryv1.AddressTypeIPv4 {
			continue
		}
		for _, port := range slice.Ports {
			if port.Port == nil || port.Name == nil || *port.Name != p.Name {
				continue
			}
			for _, e := range slice.Endpoints {
				address, err := netip.ParseAddr(e.Addresses[0])
				if err == nil && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
					found = append(found, netip.AddrPortFrom(address, uint16(*port.Port))) //nolint:gosec // a port
				}
			}
		}
	}
	if len(found) == 0 {
		return netip.AddrPort{}
	}
	return slices.MinFunc(found, func(a, b netip.AddrPort) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Port(), b.Port()))
	})
}

// leadServices replaces all ways of Services. Connections keep the way on which they began.
func leadServices(ways []way) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open netfilter: %w", err)
	}
	table := c.AddTable(&nftables.Table{Name: "service", Family: nftables.TableFamilyIPv4})
	chain := c.AddChain(&nftables.Chain{
		Name: "prerouting", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPrerouting,
		Priority: nftables.ChainPriorityNATDest,
	})
	c.FlushChain(chain)
	for _, w := range ways {
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: w.exprs()})
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("lead Services to their pods: %w", err)
	}
	return nil
}

func (w way) exprs() []expr.Any {
	const destination, length = 16, 4 // of an address in the header of IPv4
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: destination, Len: length},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: w.from.Addr().AsSlice()},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{w.protocol}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(w.from.Port())},
		&expr.Immediate{Register: 1, Data: w.to.Addr().AsSlice()},
		&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(w.to.Port())},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1, RegProtoMin: 2},
	}
}
