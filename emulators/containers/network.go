package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"agents.example/controlplane/emulators/containers/tunnel"
)

// connectWorld makes the node's addresses and its only link, whose other end the process of the world gets.
func connectWorld(pid int) error {
	if err := setUp("lo", netip.PrefixFrom(nodeAddress, 32), netip.PrefixFrom(netip.MustParseAddr(resolverAddress), 32)); err != nil {
		return err
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = nodeInterface
	err := netlink.LinkAdd(&netlink.Veth{
		LinkAttrs: attributes, PeerName: worldInterface, PeerNamespace: netlink.NsPid(pid),
	})
	if err != nil {
		return fmt.Errorf("link the node and its world: %w", err)
	}
	if err := setUp(nodeInterface, nodeUplink); err != nil {
		return err
	}
	if err := routeAll(nodeInterface, worldUplink.Addr()); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}
	return serviceToNode()
}

// setUp gives a link addresses and turns it on.
func setUp(name string, addresses ...netip.Prefix) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find link %s: %w", name, err)
	}
	for _, a := range addresses {
		if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(a)}); err != nil {
			return fmt.Errorf("give %s the address %s: %w", name, a, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("turn on link %s: %w", name, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// routeAll sends what has no other route to a gateway.
func routeAll(name string, gateway netip.Addr) error {
	link, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateway.AsSlice()})
	}
	if err != nil {
		return fmt.Errorf("route by %s: %w", name, err)
	}
	return nil
}

// serviceToNode makes the address of the Service kubernetes lead to the node, where the way to the API server begins.
// No other Service of a cell has an address that pods may use, so the node needs no kube-proxy.
func serviceToNode() error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open netfilter: %w", err)
	}
	table := c.AddTable(&nftables.Table{Name: "service", Family: nftables.TableFamilyIPv4})
	chain := c.AddChain(&nftables.Chain{
		Name: "prerouting", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPrerouting,
		Priority: nftables.ChainPriorityNATDest,
	})
	const destination, length = 16, 4 // of an address in the header of IPv4
	c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: destination, Len: length},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: apiService.AsSlice()},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(apiServicePort)},
		&expr.Immediate{Register: 1, Data: nodeAddress.AsSlice()},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1},
	}})
	if err := c.Flush(); err != nil {
		return fmt.Errorf("route the Service kubernetes: %w", err)
	}
	return nil
}

// world plays what is beyond the node's network, in a network namespace behind the node's link.
func world(ctx context.Context, c config) error {
	addresses := []netip.Addr{internet, metadata, privateHost, loadBalancer}
	for at := range c.Hosts {
		addresses = append(addresses, at.Addr())
	}
	if err := await(ctx, func() error { return setUp(worldInterface, worldUplink) }); err != nil {
		return err
	}
	if err := routeAll(worldInterface, nodeUplink.Addr()); err != nil {
		return err
	}
	prefixes := make([]netip.Prefix, len(addresses))
	for i, a := range addresses {
		prefixes[i] = netip.PrefixFrom(a, a.BitLen())
	}
	if err := setUp("lo", prefixes...); err != nil {
		return err
	}
	gateway, err := tunnel.Listen(ctx, c.socket("gateway"))
	if err != nil {
		return err
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = tunnel.Connect(ctx, gateway, nil, loadBalancer) })
	for _, a := range addresses[:4] {
		if err := greet(ctx, &serving, a); err != nil {
			return err
		}
	}
	for at := range c.Hosts {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", at.String())
		if err != nil {
			return err
		}
		serving.Go(func() {
			_ = tunnel.Forward(ctx, l, tunnel.To("unix", c.socket(hostSocket(at.String()))))
		})
	}
	serving.Wait()
	return nil
}

// greet answers every request to an address of the world with that address.
func greet(ctx context.Context, serving *sync.WaitGroup, a netip.Addr) error {
	const port = 80
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(a.String(), strconv.Itoa(port)))
	if err != nil {
		return err
	}
	s := &http.Server{ //nolint:gosec // no client of this network is slow on purpose
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, a) }),
	}
	serving.Go(func() { _ = s.Serve(l) })
	return nil
}
