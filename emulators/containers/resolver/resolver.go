// Package resolver answers DNS queries for the names of a cluster's Services and for fixed names. Everything else goes
// to an upstream resolver, or does not exist. It has A records only: there are no SRV and PTR records, and no names of
// single pods.
package resolver

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
)

const (
	ttl             = 5 // seconds; endpoints come and go
	upstreamTimeout = 5 * time.Second
)

// Options say what the resolver knows.
type Options struct {
	Addr   netip.AddrPort        // UDP and TCP
	Names  map[string]netip.Addr // fixed names, with or without a dot at the end
	Client kubernetes.Interface  // reads Services and EndpointSlices
	Domain string                // of the cluster, "cluster.local" by default
	// Upstream answers queries for names outside the domain. If it is nil, these names do not exist.
	Upstream func(context.Context, *dns.Msg) (*dns.Msg, error)
	Ready    func() // optional; called when the resolver listens and knows the Services
}

// Run answers queries until the context ends. It listens in the network namespace of the calling thread.
func Run(ctx context.Context, o Options) error {
	var listen net.ListenConfig
	packets, err := listen.ListenPacket(ctx, "udp", o.Addr.String())
	if err != nil {
		return fmt.Errorf("resolver: %w", err)
	}
	defer func() { _ = packets.Close() }()
	streams, err := listen.Listen(ctx, "tcp", o.Addr.String())
	if err != nil {
		return fmt.Errorf("resolver: %w", err)
	}
	defer func() { _ = streams.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactory(o.Client, 0)
	defer factory.Shutdown()
	defer cancel()
	h := newHandler(ctx, o, factory)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if ctx.Err() != nil {
		return nil
	}
	servers := []*dns.Server{{PacketConn: packets, Handler: h}, {Listener: streams, Handler: h}}
	ended := make(chan error, len(servers))
	for _, s := range servers {
		go func() { ended <- s.ActivateAndServe() }()
		defer func() { _ = s.Shutdown() }() // closes connections, too
	}
	if o.Ready != nil {
		o.Ready()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return fmt.Errorf("resolver: a server ended: %w", err)
	}
}

type handler struct {
	ctx      context.Context
	names    map[string]netip.Addr
	domain   string
	upstream func(context.Context, *dns.Msg) (*dns.Msg, error)
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister
}

func newHandler(ctx context.Context, o Options, factory informers.SharedInformerFactory) *handler {
	h := &handler{
		ctx: ctx, names: map[string]netip.Addr{}, upstream: o.Upstream,
		services: factory.Core().V1().Services().Lister(),
		slices:   factory.Discovery().V1().EndpointSlices().Lister(),
	}
	if o.Domain == "" {
		o.Domain = "cluster.local"
	}
	h.domain = "." + dns.CanonicalName(o.Domain)
	for name, addr := range o.Names {
		h.names[dns.CanonicalName(name)] = addr
	}
	return h
}

// ServeDNS implements dns.Handler. An error of the connection is the client's to notice.
func (h *handler) ServeDNS(w dns.ResponseWriter, query *dns.Msg) {
	reply := h.answer(query)
	if _, isUDP := w.RemoteAddr().(*net.UDPAddr); isUDP {
		size := dns.MinMsgSize
		if options := query.IsEdns0(); options != nil {
			size = int(options.UDPSize())
		}
		reply.Truncate(size)
	}
	_ = w.WriteMsg(reply)
}

func (h *handler) answer(query *dns.Msg) *dns.Msg {
	reply := new(dns.Msg).SetReply(query)
	if query.Opcode != dns.OpcodeQuery || len(query.Question) != 1 {
		return reply.SetRcode(query, dns.RcodeNotImplemented)
	}
	reply.RecursionAvailable = true
	question := query.Question[0]
	name := dns.CanonicalName(question.Name)
	addrs := h.lookup(name)
	switch {
	case len(addrs) > 0 && question.Qtype == dns.TypeA:
		header := dns.RR_Header{Name: question.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: ttl}
		for _, addr := range addrs {
			reply.Answer = append(reply.Answer, &dns.A{Hdr: header, A: addr.AsSlice()})
		}
	case len(addrs) > 0: // the name exists, without records of the type
	case h.upstream == nil || strings.HasSuffix("."+name, h.domain):
		// A pod's search list makes several such names of every name. None of them leaves the node.
		reply.Rcode = dns.RcodeNameError
	default:
		ctx, cancel := context.WithTimeout(h.ctx, upstreamTimeout)
		defer cancel()
		answer, err := h.upstream(ctx, query)
		if err != nil || answer == nil {
			return reply.SetRcode(query, dns.RcodeServerFailure)
		}
		answer.Id = query.Id
		return answer
	}
	return reply
}

// lookup returns the IPv4 addresses of a name. A headless Service has those of its ready endpoints.
func (h *handler) lookup(name string) []netip.Addr {
	if addr, ok := h.names[name]; ok {
		return []netip.Addr{addr}
	}
	name, ok := strings.CutSuffix(name, ".svc"+h.domain)
	service, namespace, both := strings.Cut(name, ".")
	if !ok || !both {
		return nil
	}
	found, err := h.services.Services(namespace).Get(service)
	if err != nil {
		return nil
	}
	if found.Spec.ClusterIP != corev1.ClusterIPNone {
		return appendIPv4(nil, found.Spec.ClusterIP)
	}
	ofService := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service})
	endpointSlices, _ := h.slices.EndpointSlices(namespace).List(ofService) // an index in memory returns no error
	var addrs []netip.Addr
	for _, s := range endpointSlices {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				addrs = appendIPv4(addrs, e.Addresses...)
			}
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	return slices.Compact(addrs)
}

func appendIPv4(addrs []netip.Addr, texts ...string) []netip.Addr {
	for _, text := range texts {
		if addr, err := netip.ParseAddr(text); err == nil && addr.Is4() {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}
