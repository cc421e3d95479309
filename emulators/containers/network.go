package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"

	"agents.example/controlplane/emulators/containers/tunnel"
)

// connectWorld makes the node's addresses and its only link, whose other end the process of the world gets.
func connectWorld(pid int) error {
	if err := setUp("lo", hostBits, nodeAddress, resolverAddress); err != nil {
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
	if err := setUp(nodeInterface, uplinkBits, nodeUplink); err != nil {
		return err
	}
	if err := routeAll(nodeInterface, worldUplink); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}
	return leadServices([]way{toAPIServer()})
}

// hostBits are the bits of the network of one address.
const hostBits = 32

// setUp gives a link addresses in networks of a size, and turns it on.
func setUp(name string, bits int, addresses ...string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find link %s: %w", name, err)
	}
	for _, a := range addresses {
		if err := netlink.AddrAdd(link, &netlink.Addr{
			IPNet: &net.IPNet{IP: net.ParseIP(a), Mask: net.CIDRMask(bits, hostBits)},
		}); err != nil {
			return fmt.Errorf("give %s the address %s: %w", name, a, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("turn on link %s: %w", name, err)
	}
	return nil
}

// routeAll sends what has no other route to a gateway.
func routeAll(name, gateway string) error {
	link, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.ParseIP(gateway)})
	}
	if err != nil {
		return fmt.Errorf("route by %s: %w", name, err)
	}
	return nil
}

// world plays what is beyond the node's network, in a network namespace behind the node's link.
func world(ctx context.Context, c config) error {
	addresses := greeters()
	for at := range c.Hosts {
		if !slices.Contains(addresses, at.Addr().String()) { // several ports may have one
			addresses = append(addresses, at.Addr().String())
		}
	}
	if err := await(ctx, func() error { return setUp(worldInterface, uplinkBits, worldUplink) }); err != nil {
		return err
	}
	if err := routeAll(worldInterface, nodeUplink); err != nil {
		return err
	}
	if err := setUp("lo", hostBits, addresses...); err != nil {
		return err
	}
	gateway, err := tunnel.Listen(ctx, c.socket("gateway"))
	if err != nil {
		return err
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = tunnel.Connect(ctx, gateway, nil, netip.MustParseAddr(loadBalancer)) })
	for _, a := range greeters() {
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
func greet(ctx context.Context, serving *sync.WaitGroup, a string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(a, "80"))
	if err != nil {
		return err
	}
	s := &http.Server{ //nolint:gosec // no client of this network is slow on purpose
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, a) }),
	}
	serving.Go(func() { _ = s.Serve(l) })
	return nil
}
